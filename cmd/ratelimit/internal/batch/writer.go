package batch

import (
	"bufio"
	"time"

	"dappco.re/go/core/go-ratelimit/money"
)

const (
	maxGroup  = 256         // outcomes that are written together
	syncEvery = time.Second // how long what was written may not be durable
)

// writer writes OUT and the file of errors.
type writer struct {
	b       *Batch
	errors  *bufio.Writer // nil without that file
	order   *sequence     // nil without --ordered
	out     []byte
	group   []*outcome
	dirty   bool      // something is not durable
	synced  time.Time // when all was
	failed  error     // the first write that failed
	spentAt money.Amount
}

// run writes outcomes until there are no more.
func (w *writer) run(from <-chan *outcome) error {
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	for {
		select {
		case o, ok := <-from:
			if !ok {
				w.write()
				w.sync()
				return w.failed
			}
			w.take(o)
			for more := true; more && len(w.group) < maxGroup; {
				select {
				case o, ok = <-from:
					if more = ok; ok {
						w.take(o)
					}
				default:
					more = false
				}
			}
			w.write()
			if w.dirty && time.Since(w.synced) >= syncEvery {
				w.sync()
			}
		case <-tick.C:
			w.sync()
		}
	}
}

// take adds an outcome to the group, and those that have waited for it.
func (w *writer) take(o *outcome) {
	if w.order == nil {
		w.group = append(w.group, o)
		return
	}
	w.group = w.order.add(w.group, o)
}

// write writes the group.
func (w *writer) write() {
	w.out = w.out[:0]
	var cost money.Amount
	for _, o := range w.group {
		w.out = append(w.out, o.text...)
		cost = cost.Add(o.call.cost())
		if o.failure != nil && w.errors != nil {
			w.errors.Write(w.b.errorLine(&o.call.line, o.failure)) //nolint:errcheck // Flush returns it
		}
	}
	if len(w.out) > 0 && w.failed == nil {
		w.fail(w.b.note(cost, false)) // first, so that a killed batch knows what the answers in OUT have cost
		w.fail(w.b.s.Output.write(w.out))
		w.dirty = true
	}
	for i, o := range w.group {
		w.b.count.add(o, w.failed != nil)
		w.b.room.leave(o.call)
		w.group[i] = nil
	}
	w.group = w.group[:0]
	if cap(w.out) > 4<<20 {
		w.out = nil
	}
}

// sync makes durable what was written, and what the batch has cost.
func (w *writer) sync() {
	if w.errors != nil {
		w.fail(w.errors.Flush())
	}
	spent, _ := w.b.room.costs()
	if !w.dirty && spent == w.spentAt || w.failed != nil {
		return
	}
	w.fail(w.b.s.Output.sync())
	if spent != w.spentAt && w.failed == nil {
		w.fail(w.b.note(0, true))
	}
	w.dirty, w.synced, w.spentAt = false, time.Now(), spent
}

// fail notes an error, with which the batch ends.
func (w *writer) fail(err error) {
	if err != nil && w.failed == nil {
		w.failed = err
		w.b.stop(StoppedByError)
	}
}

// sequence puts outcomes into the order of their lines.
type sequence struct {
	next  int
	early map[int]*outcome
}

// add appends an outcome whose turn it is, and those behind it that are there.
func (s *sequence) add(group []*outcome, o *outcome) []*outcome {
	if s.early == nil {
		s.early = make(map[int]*outcome)
	}
	s.early[o.call.order] = o
	for {
		o, ok := s.early[s.next]
		if !ok {
			return group
		}
		delete(s.early, s.next)
		s.next++
		group = append(group, o)
	}
}
