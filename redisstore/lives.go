package redisstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
)

// lives is what was heard of the leases of other processes. The zero value has heard nothing. It is
// safe for concurrent use.
type lives struct {
	mu  sync.Mutex
	all map[int64]life
}

// life is what was heard of one process.
type life struct {
	ends float64   // its lease, in milliseconds of the log's time; 0 where it has none
	as   time.Time // when that was so
}

// mostLives is of how many processes the leases are kept.
const mostLives = 16384

// learn takes over the leases of all processes, as they were at a time.
func (v *lives) learn(leases map[int64]float64, at time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.all = make(map[int64]life, min(len(leases), mostLives))
	for process, ends := range leases {
		v.putLocked(process, life{ends, at})
	}
}

// note notes what was heard of one process.
func (v *lives) note(process int64, is life) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.putLocked(process, is)
}

func (v *lives) putLocked(process int64, is life) {
	if _, has := v.all[process]; !has && len(v.all) >= mostLives || v.all == nil {
		v.all = make(map[int64]life) // they are asked for again
	}
	v.all[process] = is
}

// get returns what was heard of a process.
func (v *lives) get(process int64) (is life, known bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	is, known = v.all[process]
	return is, known
}

// Owner implements sharedlog.Log. A process lives as long as its lease, and a tenth longer. It asks
// the store where it has not done so for a tenth of a lease. While the store cannot be asked, all
// processes count as alive.
func (l *Log) Owner(process int64) sharedlog.Liveness {
	if process == l.options.Process {
		return sharedlog.Alive
	}
	grace := l.options.LeaseTTL / 10
	is, known := l.lives.get(process)
	if !known || time.Since(is.as) > grace {
		asked := time.Now()
		ends, err := ask(l.closing, l.store, func(ctx context.Context) (float64, error) {
			ends, err := l.store.client.ZScore(ctx, l.keys[keyProcs], itoa(process)).Result()
			if errors.Is(err, redis.Nil) {
				return 0, nil
			}
			return ends, err
		})
		if err != nil {
			return sharedlog.Alive
		}
		is = life{ends, asked}
		l.lives.note(process, is)
	}
	if float64(l.clock.now()-int64(grace))/1e6 <= is.ends {
		return sharedlog.Alive
	}
	return sharedlog.Dead
}
