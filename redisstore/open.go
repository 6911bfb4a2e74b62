package redisstore

import (
	"context"
	_ "embed"
	"sync"
)

// formerLayout is the layout before, which this version takes over, and formerNames are its keys,
// in the order in which the scripts know them.
const formerLayout = "2"

var formerNames = []string{"log", "meta", "days", "quotas", "cooldowns", "answers", "procs", "holes", "found", "spend", "pools"}

var (
	//go:embed scripts/guard.lua
	guardLua string
	//go:embed scripts/enter.lua
	enterLua string

	enterScript = newScript(guardLua + enterLua)
)

// enter keeps programs of the layout before out, or takes over the log that they have.
func (l *Log) enter(ctx context.Context) error {
	status, err := patiently(ctx, l.store, l.crew, func(ctx context.Context) (any, error) {
		return l.eval(ctx, enterScript, l.keys[ownKeys:], []any{l.keepFor()})
	})
	switch {
	case err != nil:
		return err
	case status == "former":
		return l.takeOver(ctx)
	}
	return statusOf(status)
}

// past are the logs that limiters of this program have used, so that one which is gone is not taken
// for one that never was. It is safe for concurrent use.
type past struct {
	mu  sync.Mutex
	all []lineage // the latest last
}

// lineage is where a log is: in a run of a server, under a prefix.
type lineage struct{ run, prefix string }

// mostLineages bounds the logs that a program remembers.
const mostLineages = 256

var used past // of the program: it may make a Store for each of its limiters

// use notes that there is a log, and isUsed reports whether there was one.
func (l *Log) use() {
	l.store.used.Store(true)
	used.note(lineage{l.store.run, l.store.options.Prefix})
}

func (l *Log) isUsed() bool {
	return l.store.used.Load() || used.has(lineage{l.store.run, l.store.options.Prefix})
}

// note notes that a log was used, once.
func (p *past) note(of lineage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if of.run == "" || p.hasLocked(of) {
		return
	}
	if p.all = append(p.all, of); len(p.all) > mostLineages {
		p.all = p.all[1:]
	}
}

func (p *past) has(of lineage) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hasLocked(of)
}

func (p *past) hasLocked(of lineage) bool {
	for _, is := range p.all {
		if is == of {
			return true
		}
	}
	return false
}
