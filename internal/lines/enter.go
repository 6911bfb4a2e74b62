package lines

import (
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/verdict"
)

// Enter serves or refuses a waiter at once, or has it stand in line: see TakeDone. Serve follows.
func (l *Lines) Enter(w *Waiter, now account.Now) {
	for _, c := range w.Candidates {
		c.Waiter = w
	}
	l.goOn(w, now)
	if !w.Over && w.entered < len(w.Candidates) {
		l.patient.put(w)
	}
}

// goOn serves a waiter by the first candidate that passes. If none passes, the candidates that
// were not refused stand in line. While the waiter is patient, only the first of them does.
func (l *Lines) goOn(w *Waiter, now account.Now) {
	isPatient := w.Patient > now.Instant
	for stands := false; !w.Over && !stands && w.entered < len(w.Candidates); {
		from := w.entered
		for waits := false; !w.Over && w.entered < len(w.Candidates) && !(isPatient && waits); w.entered++ {
			waits = l.ask(w.Candidates[w.entered], now)
		}
		for _, c := range w.Candidates[from:w.entered] {
			if !w.Over && c.Kind == Stands {
				stands = l.stand(c, now) || stands
			}
		}
	}
	if !w.Over && w.isRefused() {
		l.endRefused(w, now)
	}
}

// ask serves a candidate that comes, or refuses it. It reports whether it has to wait.
func (l *Lines) ask(c *Candidate, now account.Now) (waits bool) {
	c.Verdict = l.host.Decide(c, now)
	if i := l.queued(c); i >= 0 {
		c.Verdict.Queue(c.Items, i)
	}
	switch {
	case c.Verdict.Never:
		c.Kind = Never
	case c.Verdict.Allowed:
		l.serve(c, now)
	case c.Waiter.Deadline <= now.Instant || l.host.IsHopeless(c, now):
		c.Kind = Late
	default:
		return true
	}
	return false
}

// stand puts a candidate at the end of its flow and class in the lines of all its accounts, in one
// step: so of two in the same lines, one is ahead in all. It reports whether there was room.
func (l *Lines) stand(c *Candidate, now account.Now) bool {
	w, class := c.Waiter, l.classOf(c.Class)
	if i := l.full(c, class); i >= 0 {
		c.Verdict.Queue(c.Items, i)
		c.Kind = QueueFull
		return false
	}
	if w.Seq == 0 {
		l.seq++
		w.Seq, w.Since = l.seq, now.Instant
		w.Denied, w.By = c.Verdict, c
	}
	l.host.Join(c, now)
	heads := l.heads(c)
	l.join(c)
	c.noteScarce()
	for i, p := range c.models() {
		if class.Reserves || c.isNext() {
			l.mark(p.line)
		}
		if was := heads[i]; was != nil && p.line.head() != was { // others may pass it where it is still the head
			for _, other := range was.models() {
				l.mark(other.line)
			}
		}
	}
	return true
}

// heads returns the head of the line of each model of a candidate that comes, where that waits for
// several models; nil for none.
func (l *Lines) heads(c *Candidate) []*Candidate {
	heads := make([]*Candidate, len(c.Items))
	for i := range c.Items {
		if g := l.of[c.Items[i].Account]; g != nil && !g.isPool {
			if heads[i] = g.head(); heads[i] != nil && len(heads[i].models()) < 2 {
				heads[i] = nil
			}
		}
	}
	return heads
}

// join puts a candidate into the lines of all its accounts.
func (l *Lines) join(c *Candidate) {
	class := l.classOf(c.Class)
	for i := range c.Items {
		g := l.lineOf(c.Items[i].Account)
		p := place{line: g, entry: g.queue.PushAsleep(c, class.Share, c.Flow)}
		if !g.isPool && !l.asleep[c.Waiter.ID.Process] {
			g.queue.Wake(p.entry)
		}
		c.places = append(c.places, p)
		l.waiting++
		g.account.Waiting++
		if class.Reserves {
			g.account.NeedUse(class.Name).Waiting++
		}
	}
}

// full returns the first item for whose model as many wait as may; -1 for none.
func (l *Lines) full(c *Candidate, class Class) int {
	for i := range c.Items {
		a := c.Items[i].Account
		g := l.of[a]
		if g == nil || g.isPool {
			continue
		}
		if most := c.Waiter.MaxQueue; most > 0 && g.queue.Len() >= most {
			return i
		}
		if most := class.MaxQueue; most > 0 && g.queue.InClass(class.Name) >= most {
			return i
		}
	}
	return -1
}

// serve ends a wait with what a candidate asks for.
func (l *Lines) serve(c *Candidate, now account.Now) {
	w := c.Waiter
	if c.stands() {
		for i := range c.places {
			p := &c.places[i]
			p.part = partOf(&c.Items[i], p.line.scarce)
		}
	} else {
		l.Passed(c.Items, c.Class)
	}
	if w.Served = c; w.Charges {
		w.Calls = l.host.Admit(c, now)
	}
	l.end(w, now)
}

// refuse ends a candidate, and with the last of them the wait.
func (l *Lines) refuse(c *Candidate, kind Kind, now account.Now) {
	w := c.Waiter
	c.Kind = kind
	l.leaveLines(c, now)
	switch {
	case w.isRefused():
		l.endRefused(w, now)
	case w.firstInLine() == nil: // there is nothing left to be patient for
		w.Patient = now.Instant
		l.patient.remove(w)
		l.goOn(w, now)
	}
}

// refuseAll ends all candidates.
func (l *Lines) refuseAll(w *Waiter, kind Kind, now account.Now) {
	for _, c := range w.Candidates {
		if c.Kind == Stands {
			c.Kind = kind
		}
	}
	l.endRefused(w, now)
}

func (l *Lines) endRefused(w *Waiter, now account.Now) {
	w.Why = w.leastHopeless()
	l.end(w, now)
}

// end ends a wait.
func (l *Lines) end(w *Waiter, now account.Now) {
	w.Over = true
	l.depart(w, now)
	l.done = append(l.done, w)
}

// Leave takes out a waiter that has given up. It reports whether it was still waiting: else it has
// ended before.
func (l *Lines) Leave(w *Waiter, now account.Now) bool {
	if w.Over {
		return false
	}
	w.Over = true
	l.depart(w, now)
	return true
}

// Close refuses all waiters.
func (l *Lines) Close(now account.Now) {
	for _, w := range l.Waiters() {
		l.refuseAll(w, Closed, now)
	}
}

// depart takes a waiter out of all lines.
func (l *Lines) depart(w *Waiter, now account.Now) {
	l.progress++
	l.patient.remove(w)
	for _, c := range w.Candidates {
		l.leaveLines(c, now)
	}
}

// leaveLines takes a candidate out of its lines.
func (l *Lines) leaveLines(c *Candidate, now account.Now) {
	class := l.classOf(c.Class)
	for i := range c.places {
		p := &c.places[i]
		g := p.line
		leads := g.queue.Classes() > 1 || len(c.places) > 1 || g.queue.Head() == p.entry
		if p.part > 0 {
			g.queue.Serve(p.entry, p.part)
		} else {
			g.queue.Remove(p.entry)
		}
		l.waiting--
		g.account.Waiting--
		if class.Reserves {
			if u := g.account.NeedUse(class.Name); u.Waiting > 0 {
				u.Waiting--
				u.SeenAt = now.Instant
			}
		}
		switch {
		case g.queue.Len() == 0:
			l.resting.remove(g)
			delete(l.of, g.account)
			if !l.requeues {
				g.forgetAsks()
			}
			l.MarkNeedy() // a model that nobody waits for may make a place
		case leads:
			l.mark(g)
		}
	}
	c.places = nil
}

// Due returns the instant at which anybody is to be looked at again; account.Never for none.
func (l *Lines) Due() int64 { return min(l.resting.next(), l.patient.next()) }

// Advance looks at those that are due. Serve follows.
func (l *Lines) Advance(now account.Now) {
	for g, ok := l.resting.take(now.Instant); ok; g, ok = l.resting.take(now.Instant) {
		l.mark(g)
	}
	for w, ok := l.patient.take(now.Instant); ok; w, ok = l.patient.take(now.Instant) {
		l.goOn(w, now)
	}
}

// Requeue puts all waiters in line anew, in the order of their arrival, after their accounts or the
// classes have changed. rename has a candidate ask for the names under which its models are counted
// now. Flows keep their turns, and classes what they were served.
func (l *Lines) Requeue(classes map[string]Class, rename func(*Candidate), now account.Now) {
	waiters := l.Waiters()
	lines := l.sorted()
	orders := make([]order, len(lines))
	for i, g := range lines {
		orders[i] = order{g.queue.Circle(), g.queue.Progress()}
	}
	standing := make([][]*Candidate, len(waiters))
	l.requeues = true
	for i, w := range waiters {
		for _, c := range w.Candidates {
			if c.stands() {
				standing[i] = append(standing[i], c)
				l.leaveLines(c, now)
			}
		}
	}
	l.classes, l.requeues = classes, false
	for i := range waiters {
		for _, c := range standing[i] {
			rename(c)
			l.host.Join(c, now)
			l.join(c)
		}
	}
	for i, g := range lines {
		if anew := l.of[g.account]; anew != nil {
			anew.queue.Resume(orders[i].progress, func(name string) Share { return l.classOf(name).Share })
			anew.queue.SetCircle(orders[i].circle)
		} else {
			g.forgetAsks()
		}
	}
}

// forgetAsks forgets who has asked for a model that has no place, once nobody waits for it: else
// that would be known until somebody looks.
func (g *line) forgetAsks() {
	if !g.account.HasPlace() {
		g.account.ForgetAsks(account.Never)
	}
}

// order is how far the classes of a line were served, and whose flow is next.
type order struct {
	circle   fairCircle
	progress fairProgress
}

// Review refuses the waiters that can pass no more, at any place in line, after something has
// changed for an account; nil stands for all accounts.
func (l *Lines) Review(a *account.Account, now account.Now) {
	for _, w := range l.Waiters() {
		for _, c := range w.Candidates {
			if w.Over || !c.stands() || a != nil && !c.asks(a) {
				continue
			}
			switch c.Verdict = l.host.Decide(c, now); {
			case c.Verdict.Never:
				l.refuse(c, Never, now)
			case l.host.IsHopeless(c, now):
				l.refuse(c, Late, now)
			}
		}
	}
}

// asks reports whether a candidate asks an account.
func (c *Candidate) asks(a *account.Account) bool {
	return slices.ContainsFunc(c.Items, func(i verdict.Item) bool { return i.Account == a })
}
