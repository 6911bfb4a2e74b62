package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

const (
	// choresEvery is how often a log deletes what counts no more.
	choresEvery = time.Second
	// dropMost is how many entries a script deletes, and mostDrops how many ranges wait for that:
	// other processes have the same ones.
	dropMost, mostDrops = 200, 4096
	// overFor is how old the beginning of a day is that is surely over, and the end of a cooldown
	// that nobody asks for any more. For what was found it is state.FoundLasts.
	overFor = 48 * time.Hour
)

// chores are what the goroutine of a log has to do for all. The zero value has nothing to do. It is
// safe for concurrent use.
type chores struct {
	mu     sync.Mutex
	drops  [][2]int64
	sweeps bool

	doing sync.Mutex // one at a time
}

// add adds what a batch asks for.
func (c *chores) add(b *sharedlog.Batch) {
	if len(b.Drops) == 0 && !b.Sweep {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweeps = c.sweeps || b.Sweep
	for _, d := range b.Drops {
		for from := d[0]; from <= d[1]; from += dropMost {
			c.drops = append(c.drops, [2]int64{from, min(from+dropMost-1, d[1])})
		}
	}
	if n := len(c.drops); n > mostDrops {
		c.drops = slices.Clone(c.drops[n-mostDrops:])
	}
}

// take returns what there is to do, which is the caller's then.
func (c *chores) take() (drops [][2]int64, sweeps bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	drops, sweeps = c.drops, c.sweeps
	c.drops, c.sweeps = nil, false
	return drops, sweeps
}

// keep renews the lease and does the chores until the log is closed. What fails comes again, or
// another process does it.
func (l *Log) keep() {
	every := min(l.options.LeaseTTL/3, choresEvery)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for renewAt := time.Now().Add(l.options.LeaseTTL / 3); ; {
		select {
		case <-l.closing.Done():
			return
		case <-tick.C:
		}
		if !time.Now().Before(renewAt) && l.usable() == nil {
			if _, err := l.look(l.closing, l.heard.position().seq, true); err == nil {
				renewAt = time.Now().Add(l.options.LeaseTTL/3 - every/2)
			}
		}
		l.doChores(l.closing)
	}
}

// doChores does what there is to do.
func (l *Log) doChores(ctx context.Context) {
	l.chores.doing.Lock()
	defer l.chores.doing.Unlock()
	drops, sweeps := l.chores.take()
	if l.usable() != nil {
		return // the drops are of another log
	}
	if err := l.drop(ctx, drops); err != nil {
		return
	}
	if sweeps {
		l.sweep(ctx)
	}
}

// drop deletes events. Ranges that another process has deleted are left out.
func (l *Log) drop(ctx context.Context, drops [][2]int64) error {
	folded := l.folded()
	drops = slices.DeleteFunc(drops, func(d [2]int64) bool { return d[0] < d[1] && d[1] <= folded })
	for len(drops) > 0 {
		n, entries := 0, int64(0)
		for n < len(drops) && (n == 0 || entries+drops[n][1]-drops[n][0] < dropMost) {
			entries += drops[n][1] - drops[n][0] + 1
			n++
		}
		args := l.args(l.heard.position(), false, 2*n)
		for _, d := range drops[:n] {
			args = append(args, d[0], d[1])
		}
		if _, err := l.run(ctx, dropScript, args); err != nil {
			return err
		}
		drops = drops[n:]
	}
	return nil
}

// sweep deletes days, cooldowns, spend and what was found that are long over, and what is left of
// processes, if no other process has done so in the last minute.
func (l *Log) sweep(ctx context.Context) error {
	claimed, err := l.runSweep(ctx, "claim")
	if err != nil || claimed == 0 {
		return err
	}
	now := l.clock.now()
	for key, name := range map[int]string{keyDays: "days", keyCooldowns: "cooldowns", keyFound: "found", keySpend: "spend"} {
		var old []any
		err := l.scan(ctx, key, func(field, value string) {
			if _, isModel := modelOf(field); !isModel {
				return
			}
			if isOver(key, value, now) {
				old = append(old, field, value)
			}
		})
		if err != nil {
			return err
		}
		for pairs := range slices.Chunk(old, 2*dropMost) {
			if _, err := l.runSweep(ctx, name, pairs...); err != nil {
				return err
			}
		}
	}
	return l.sweepProcesses(ctx)
}

// isOver reports whether a value of a hash is long over.
func isOver(key int, value string, now int64) bool {
	if key == keyFound {
		f, err := state.ParseFound(value)
		return err == nil && f.At < now-int64(state.FoundLasts)
	}
	if key == keySpend {
		s, err := parseSpent(value)
		return err == nil && s.IsOver(now-int64(overFor))
	}
	at, _, err := parseOrdered(value)
	return err == nil && at < now-int64(overFor)
}

// sweepProcesses deletes the leases that ended an hour ago.
func (l *Log) sweepProcesses(ctx context.Context) error {
	dead, err := ask(ctx, l.store, func(ctx context.Context) ([]string, error) {
		const before = int64(time.Hour)
		return l.store.client.ZRangeByScore(ctx, l.keys[keyProcs], &redis.ZRangeBy{
			Min: "1", Max: fmt.Sprint((l.clock.now() - before) / 1e6), Count: dropMost,
		}).Result()
	})
	if err != nil || len(dead) == 0 {
		return err
	}
	args := make([]any, 0, len(dead))
	for _, process := range dead {
		args = append(args, process)
	}
	_, err = l.runSweep(ctx, "dead", args...)
	return err
}

// runSweep runs the script sweep, and returns what it has done.
func (l *Log) runSweep(ctx context.Context, what string, more ...any) (int64, error) {
	args := append(l.args(l.heard.position(), false, 1+len(more)), what)
	r, err := l.run(ctx, sweepScript, append(args, more...))
	if errors.Is(err, errReplaced) {
		return 0, err
	}
	return r.place, err
}
