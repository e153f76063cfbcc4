package lockstock.lettuce;

import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;

import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.output.CommandOutput;

/** Reads any reply: a map is a flat list. */
final class Reply extends CommandOutput<byte[], byte[], Object> {
    private final Deque<List<Object>> open = new ArrayDeque<>();

    Reply() {
        super(ByteArrayCodec.INSTANCE, null);
    }

    private void put(Object value) {
        if (open.isEmpty()) output = value;
        else open.peek().add(value);
    }

    @Override
    public void set(ByteBuffer bytes) {
        put(bytes == null ? null : codec.decodeValue(bytes));
    }

    @Override
    public void setSingle(ByteBuffer bytes) {
        set(bytes);
    }

    @Override
    public void setBigNumber(ByteBuffer bytes) {
        set(bytes);
    }

    @Override
    public void set(long number) {
        put(number);
    }

    @Override
    public void set(double number) {
        put(number);
    }

    @Override
    public void set(boolean value) {
        put(value);
    }

    @Override
    public void multi(int count) {
        // A missing array has no end.
        if (count < 0) {
            put(null);
            return;
        }
        List<Object> list = new ArrayList<>(count);
        put(list);
        open.push(list);
    }

    @Override
    public void multiMap(int count) {
        multi(count);
    }

    @Override
    public void complete(int depth) {
        if (depth >= 0 && depth < open.size()) open.pop();
    }
}
