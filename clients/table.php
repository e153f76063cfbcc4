<?php
// What docs/clients.md says of phpredis, against real servers: `make test-clients-php`.
declare(strict_types=1);

error_reporting(E_ALL);
set_error_handler(function (int $kind, string $text, string $file, int $line) {
    throw new ErrorException($text, 0, $kind, $file, $line);
});

function connect(): Redis
{
    $url = parse_url(getenv('LOCKSTOCK_URL'));
    $redis = new Redis();
    $redis->connect($url['host'], $url['port']);
    return $redis;
}

function expect(bool $condition, string $what): void
{
    if (!$condition) {
        fwrite(STDERR, "FAILED: $what\n");
        exit(1);
    }
}

/** The tokens that wait for the lock. */
function waiters(Redis $eye): array
{
    $info = $eye->rawCommand('LOCK.INFO', 'k');
    if (!$info) {
        return [];
    }
    $rows = $info[array_search('waiters', $info, true) + 1];
    return array_map(fn ($row) => $row[array_search('token', $row, true) + 1], $rows);
}

function until(string $what, callable $condition): void
{
    for ($end = microtime(true) + 10; !$condition(); usleep(5000)) {
        expect(microtime(true) < $end, $what);
    }
}

/** Asks for the lock; how that fails, if it does. */
function ask(Redis $redis, string $token, int $wait): mixed
{
    try {
        return $redis->rawCommand('LOCK.ACQUIRE', 'k', 'TOKEN', $token, 'WAIT', (string) $wait);
    } catch (RedisException $error) {
        return $error;
    }
}

$eye = connect();
$eye->rawCommand('LOCK.ACQUIRE', 'k', 'TOKEN', 'holder');

expect(ini_get('default_socket_timeout') === '60', 'default_socket_timeout');
$rows = preg_grep('/^\| phpredis \|/', file(__DIR__ . '/../docs/clients.md'));
expect(count($rows) === 1 && str_contains(reset($rows), '`default_socket_timeout`, 60 s'), 'the row of phpredis');
echo "ok: phpredis ", phpversion('redis'), " has the defaults of its row\n";

// A call that waits has its answer however long that takes, if the read time-out is longer.
$patient = connect();
$patient->setOption(Redis::OPT_READ_TIMEOUT, 0.5 + 5);
expect(ask($patient, 'patient', 500) === false && waiters($eye) === [], 'a wait of 500 ms');
echo "ok: a wait ends at its time\n";

// A call that expires. What became of its connection is not to be relied on: so it is closed.
$impatient = connect();
$impatient->setOption(Redis::OPT_READ_TIMEOUT, 0.3);
$said = ask($impatient, 'impatient', 60_000);
expect($said instanceof RedisException, 'the read times out');
$kept = waiters($eye) === ['impatient'];
$impatient->close();
expect(connect()->rawCommand('LOCK.RELEASE', 'k', 'impatient') === 0, 'no hold');
until('nobody waits', fn () => waiters($eye) === []);
echo 'ok: a call that expires, ', $kept ? 'whose connection was kept' : 'whose connection was closed', ", is withdrawn\n";

// A cut connection: the call fails, and is not sent again.
$parked = connect();
$parked->setOption(Redis::OPT_READ_TIMEOUT, 30);
$id = $parked->rawCommand('CLIENT', 'ID');
$killer = pcntl_fork();
if ($killer === 0) {
    $other = connect();
    until('it waits', fn () => waiters($other) === ['parked']);
    $other->rawCommand('CLIENT', 'KILL', 'ID', (string) $id);
    exit(0);
}
expect(ask($parked, 'parked', 60_000) instanceof RedisException, 'a cut connection fails the call');
pcntl_waitpid($killer, $status);
until('nobody waits again', fn () => waiters($eye) === []);
echo "ok: nothing is sent again\n";
