package redisstore

import (
	"context"
	"slices"
	"sync"
)

var enterScript = newScript("guard", "enter")

// enter keeps programs of the layout before out, or takes over the log that they have.
func (l *Log) enter(ctx context.Context) error {
	status, err := patiently(ctx, l, func(ctx context.Context) (any, error) {
		return eval(ctx, l.store.client.Process, enterScript, l.former, []any{l.keepFor()})
	})
	switch {
	case err != nil:
		return err
	case status == "former":
		return l.takeOver(ctx)
	}
	return statusOf(status)
}

// used are the logs that limiters of this program have used, the latest last, so that one which is
// gone is not taken for one that never was. A program may make a Store for each of its limiters.
var used struct {
	sync.Mutex
	logs []lineage
}

// lineage is where a log is: in a run of a server, under a prefix.
type lineage struct{ run, prefix string }

// mostLineages bounds the logs that a program remembers.
const mostLineages = 256

// use notes that there is a log, and isUsed reports whether there was one.
func (l *Log) use() {
	s := l.store
	s.used.Store(true)
	used.Lock()
	defer used.Unlock()
	if of := (lineage{s.run, s.options.Prefix}); s.run != "" && !slices.Contains(used.logs, of) {
		used.logs = append(used.logs, of)
		used.logs = used.logs[max(len(used.logs)-mostLineages, 0):]
	}
}

func (l *Log) isUsed() bool {
	used.Lock()
	defer used.Unlock()
	return l.store.used.Load() || slices.Contains(used.logs, lineage{l.store.run, l.store.options.Prefix})
}
