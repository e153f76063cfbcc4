// Package reset has connections end by a reset.
package reset

import "net"

// OnClose has the end of a connection drop what it has not delivered. After an ordinary end, the system goes on sending that for a while, and a
// request that was given up may arrive after its successors.
func OnClose(conn net.Conn, err error) (net.Conn, error) {
	below := conn
	if secured, ok := conn.(interface{ NetConn() net.Conn }); ok {
		below = secured.NetConn()
	}
	if tcp, ok := below.(interface{ SetLinger(seconds int) error }); ok {
		_ = tcp.SetLinger(0)
	}
	return conn, err
}
