// A program of the older kind of modules.

import lockstock = require("lockstock");
import ioredis = require("ioredis");

const locks = new lockstock.Locks(new ioredis.Redis());
export const fence: Promise<number> = locks.using("job", { waitMs: 1 }, (hold: lockstock.Hold) => hold.fence);
