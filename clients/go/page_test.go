package lockstock_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The page works as it is printed, in an empty folder.
func TestThePageWorks(t *testing.T) {
	s := start(t)
	page := string(must(os.ReadFile("README.md")))
	block := func(language string) string {
		_, rest, _ := strings.Cut(page, "```"+language+"\n")
		text, _, _ := strings.Cut(rest, "```")
		return text
	}
	folder := t.TempDir()
	program := strings.Replace(block("go"), "127.0.0.1:6379", s.address, 1)
	if err := os.WriteFile(filepath.Join(folder, "main.go"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	set := strings.Replace(block("sh"), "../lockstock/clients/go", must(os.Getwd()), 1)
	command := exec.Command("sh", "-ec", set+"go run .")
	command.Dir = folder
	said, err := command.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(said), "job:42 is ours: true\nOK <nil>\nDUPLICATE <nil>\nOK <nil>\n") {
		t.Fatal(err, string(said))
	}
	equal(s, s.do("GET", "report"), any("done"))
	equal(s, s.do("EXISTS", "job:42"), any(int64(0)))
}
