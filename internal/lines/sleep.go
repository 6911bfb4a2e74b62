package lines

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

// DueOf is Due for the waiters of a process, as far as that is before an instant: a line that is to
// be looked at is of the process at its head, or of the first who waits there for a turn in another
// line.
func (l *Lines) DueOf(process, before int64) int64 {
	before = DueOf(l.resting.heap, before, (*line).due, func(g *line) bool { return g.owner(l.asleep) == process })
	return DueOf(l.patient.heap, before, (*Waiter).due, func(w *Waiter) bool { return w.ID.Process == process })
}

// owner returns whose turn it is in a line; 0 for nobody's.
func (g *line) owner(asleep map[int64]bool) int64 {
	if c := g.head(); c != nil {
		return c.Waiter.ID.Process
	}
	for e := range g.queue.All() {
		if process := e.Value.Waiter.ID.Process; !asleep[process] {
			return process
		}
	}
	return 0
}

// DueOf returns when the first of some in a heap is due, as far as that is before an instant; else
// that. It looks at those that are due before alone.
func DueOf[T any](heap []T, before int64, due func(T) int64, is func(T) bool) int64 {
	var look func(i int)
	look = func(i int) {
		switch {
		case i >= len(heap) || due(heap[i]) >= before:
		case is(heap[i]):
			before = due(heap[i])
		default:
			look(2*i + 1)
			look(2*i + 2)
		}
	}
	look(0)
	return before
}
