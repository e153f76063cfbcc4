import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;

/** The clock goes on while the machine sleeps. */
final class ClockTests {
    private static final long SECOND = 1_000_000_000;

    private ClockTests() {}

    private record Times(AtomicLong timer, AtomicLong wall, AtomicLong boot, Object clock) {
        static Times of(boolean linux) throws Exception {
            Class<?> kind = Class.forName("lockstock.Clock");
            Constructor<?> constructor = kind.getDeclaredConstructor(LongSupplier.class, LongSupplier.class, LongSupplier.class);
            constructor.setAccessible(true);
            AtomicLong timer = new AtomicLong(-5 * SECOND), wall = new AtomicLong(1_000 * SECOND), boot = new AtomicLong(linux ? 70 * SECOND : -1);
            LongSupplier uptime = linux ? boot::get : () -> -1;
            return new Times(timer, wall, boot, constructor.newInstance((LongSupplier) timer::get, (LongSupplier) wall::get, uptime));
        }

        long read() throws Exception {
            Method read = clock.getClass().getDeclaredMethod("read");
            read.setAccessible(true);
            return (Long) read.invoke(clock);
        }

        void pass(long seconds) {
            for (AtomicLong one : new AtomicLong[] {timer, wall, boot}) one.addAndGet(seconds * SECOND);
        }

        void sleep(long seconds) {
            for (AtomicLong one : new AtomicLong[] {wall, boot}) one.addAndGet(seconds * SECOND);
        }
    }

    public static void itGoesOnWhileTheMachineSleeps() throws Exception {
        for (boolean linux : new boolean[] {true, false}) {
            Times times = Times.of(linux);
            long begun = times.read();
            times.pass(3);
            Expect.same(times.read() - begun, 3 * SECOND);
            for (int nap = 1; nap <= 2; nap++) {
                times.sleep(60);
                Expect.same(times.read() - begun, 60 * nap * SECOND + 3 * SECOND);
            }
            times.pass(1);
            Expect.same(times.read() - begun, 124 * SECOND);
        }
    }

    public static void aWallClockThatIsSetDoesNotMoveIt() throws Exception {
        Times times = Times.of(true);
        long begun = times.read();
        for (long leap : new long[] {3_600, -7_200}) {
            times.wall().addAndGet(leap * SECOND);
            Expect.same(times.read(), begun);
        }
        times.sleep(10);
        Expect.same(times.read() - begun, 10 * SECOND);
        Times elsewhere = Times.of(false);
        begun = elsewhere.read();
        elsewhere.wall().addAndGet(-7_200 * SECOND);
        Expect.same(elsewhere.read(), begun);
        elsewhere.wall().addAndGet(3_600 * SECOND);
        Expect.same(elsewhere.read() - begun, 3_600 * SECOND);
    }
}
