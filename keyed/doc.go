// Package keyed limits what each of many keys may use: the calls of a service's users, by tenant,
// user or address, with any number of limits for each. A decision is made in memory, on thousands
// to millions of counters, without a lock in the usual case. Several processes share their counts
// through an Origin, and several regions through an Exchange.
//
// # Which limiter
//
// Take limit.Keyed if one process has one limit for each key, and if the algorithm matters: it
// works with any of package limit. Take a keyed.Limiter for more keys, for several limits a key
// that admit all or none (TakeAll), for costs that are known only afterwards (Hold), and for
// several processes. The root package, ratelimit, is for the other side: it keeps our own calls
// within the quotas of a provider.
//
// # The decision
//
// Time is divided into cells as long as the window, aligned to the Unix epoch by the wall clock. A
// request is admitted if and only if
//
//	current + ⌊previous × (Window−elapsed) / Window⌋ + held + Cost ≤ Limit
//
// where current and previous are the units charged in this cell and in the one before, elapsed is
// the part of the cell that has passed, and held are the units of open holds. A Cost of 0 is 1.
// All of that is in integers, which saturate and never overflow. RetryAfter rounds as the decision
// does: a refused request passes at now+RetryAfter, and not a nanosecond earlier, if nothing else
// is charged.
//
// # What it gives up
//
// Two counts stand for all charges of a window, so the estimate of the previous cell is exact only
// if that was charged evenly. It is off by up to previous × max(elapsed, Window−elapsed) / Window:
// too low if the cell was charged at its end, too high if at its beginning. That is half of
// previous in the middle of a cell, and nearly all of it at the edges. In one process:
//
//   - An aligned cell never holds more than Limit, but for commits of more than was held.
//   - A window that begins anywhere holds up to Limit + ⌈previous × elapsed / Window⌉, and so up to
//     2 × Limit, if the cell before was charged at its very end.
//   - N goroutines at a limit of L pass exactly L units.
//
// Use limit.SlidingLog where a window must hold exactly the limit.
//
// Several processes with an Origin know of each other what its last reply told. A process that has
// since charged over a sixteenth of what that reply left asks again before admitting, unless the
// reply is younger than three round trips. So a cell may exceed Limit by what the others charge
// in three round trips, plus, for each other process, a seventeenth of what its reply left, which
// is a sixteenth of the rest. Simulated in virtual time, for 3, 5 and 9 processes, a round trip of
// 50 ms and a load of 0.9 to 2 × Limit that comes evenly to all, the worst of ten seeds is:
//
//   - Cells of 60 s at a Limit of 6,000 hold at most 1.001 × Limit on average and 1.003 at worst,
//     and under overload at least 0.997.
//   - Cells of 1 s at a Limit of 1,000 hold 0.91 to 0.98 × Limit on average at loads from 1 on, and
//     at worst 1.16, 1.18 and 1.20.
//   - Bursts of 60 to three processes, at twice a Limit of 1,200, hold at most 1.07.
//   - 2 × Limit that come to three processes within 50 ms pass, all of them: none can know of the
//     others by then. The most is the load, or Limit times the processes. The next cell pays it
//     back.
//   - Bursts of about Limit, 200 ms or more apart, each to another process, hold at most 1.12, 1.24
//     and 1.47 × Limit.
//
// RATELIMIT_LONG=1 go test -v -run TestFigureFleet ./internal/test/keyedoracle prints the tables.
package keyed
