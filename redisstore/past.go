package redisstore

import "sync"

// past is which logs limiters of this process have followed, so that one which is gone is not taken
// for one that never was. It is safe for concurrent use.
type past struct {
	mu  sync.Mutex
	all map[lineage]int // how many follow it now
}

// lineage is where a log is: in a run of a server, under a prefix.
type lineage struct{ server, prefix string }

// mostLineages bounds the logs that nobody follows any more.
const mostLineages = 256

var followed past // of the process: a program may make a Store for each of its limiters

// begin notes that one more limiter follows a log.
func (p *past) begin(of lineage) {
	if of.server == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.all[of]; !known && len(p.all) >= mostLineages {
		for old, n := range p.all {
			if n == 0 {
				delete(p.all, old)
			}
		}
	}
	if p.all == nil {
		p.all = make(map[lineage]int)
	}
	p.all[of]++
}

// end is the opposite of begin.
func (p *past) end(of lineage) {
	if of.server == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all[of]--
}

// isOver reports whether limiters have followed a log, and none does any more.
func (p *past) isOver(of lineage) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, known := p.all[of]
	return known && n == 0
}
