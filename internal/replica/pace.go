package replica

import "time"

const (
	crowd     = 16                    // commands of a batch from which on its process is in a hurry
	forgets   = 8                     // batches, by which what was heard of others counts less
	mostPeers = 1024                  // of which that is known
	leastRest = 50 * time.Microsecond // of one that is faster than others who are in a hurry, too
	mostRest  = 4 * time.Millisecond
)

// pace has processes that are in a hurry get on alike. To hear of a command costs a process nearly
// as much as to send one. So one that gets a little more of its machine than the others would send
// several times as much: it rests until they do as much. Those whose batches are much smaller have
// fewer callers, and nobody rests for them.
type pace struct {
	own    float64 // entries of a batch; 0 where the process is in no hurry
	others map[int64]*peer
	last   *peer // whose entry was heard last, since the own batch
	whose  int64
	rest   time.Duration
}

// peer is what was heard of another process.
type peer struct {
	n, run, longest int     // entries since the own batch, in a row up to the last, and in a row at most
	batch           int     // the longest row when something was heard of it
	each            float64 // entries in the time of an own batch
}

// hear notes an entry of another process.
func (p *pace) hear(process int64) {
	if p.own == 0 {
		return
	}
	if p.last == nil || p.whose != process {
		is := p.others[process]
		if is == nil {
			if p.others == nil || len(p.others) >= mostPeers {
				p.others = make(map[int64]*peer)
			}
			is = new(peer)
			p.others[process] = is
		}
		is.run, p.last, p.whose = 0, is, process
	}
	p.last.n++
	p.last.run++
	p.last.longest = max(p.last.longest, p.last.run)
}

// sent notes an own batch, and returns how long to rest before the next.
func (p *pace) sent(n int) time.Duration {
	if n < crowd {
		*p = pace{}
		return 0
	}
	p.own += (float64(n) - p.own) / forgets
	p.last = nil
	sum, peers := 0.0, 0.0
	for process, is := range p.others {
		is.each += (float64(is.n) - is.each) / forgets
		if is.n > 0 {
			is.batch = is.longest
		}
		is.n, is.longest = 0, 0
		switch {
		case is.each < p.own/64: // it is silent
			delete(p.others, process)
		case 2*is.batch >= n:
			sum, peers = sum+is.each, peers+1
		}
	}
	if sum < 0.97*p.own*peers {
		p.rest = min(p.rest+p.rest/4+leastRest, mostRest)
	} else if p.rest /= 2; p.rest < leastRest {
		p.rest = 0
	}
	return p.rest
}
