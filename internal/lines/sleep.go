package lines

import "dappco.re/go/core/go-ratelimit/internal/account"

// Sleep has the waiters of a process keep their places and be passed over, or wakes them. The image
// does not tell who sleeps; after it was read, Sleep has to be told again. Serve follows.
func (l *Lines) Sleep(process int64, sleeps bool) {
	if l.asleep[process] == sleeps {
		return
	}
	if sleeps {
		if l.asleep == nil {
			l.asleep = make(map[int64]bool)
		}
		l.asleep[process] = true
	} else {
		delete(l.asleep, process)
	}
	l.progress++
	for _, w := range l.Waiters() {
		if w.ID.Process != process {
			continue
		}
		for _, c := range w.Candidates {
			l.setAsleep(c, sleeps)
		}
	}
}

// setAsleep has a candidate sleep in all its lines, or wakes it in those of its models.
func (l *Lines) setAsleep(c *Candidate, sleeps bool) {
	models := len(c.models())
	for i := range c.places {
		p := &c.places[i]
		switch {
		case sleeps && p.entry.IsAwake():
			p.line.queue.Sleep(p.entry)
		case sleeps || i >= models:
			continue
		default:
			p.line.queue.Wake(p.entry)
		}
		l.mark(p.line)
	}
}

// Owner returns whose waiter is due first: the process at the head of the line that is to be looked
// at next, or of the first who waits there for a turn in another line. It is 0 where that is
// nobody's.
func (l *Lines) Owner() int64 {
	rests := l.resting.next()
	if l.patient.next() < rests {
		return l.patient.heap[0].ID.Process
	}
	if rests == account.Never {
		return 0
	}
	g := l.resting.heap[0]
	if c := g.head(); c != nil {
		return c.Waiter.ID.Process
	}
	for e := range g.queue.All() {
		if process := e.Value.Waiter.ID.Process; !l.asleep[process] {
			return process
		}
	}
	return 0
}
