package replica

import (
	"errors"
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/store"
)

// poisoned are the entries at which the engine has panicked. One that does so twice, the second
// time behind another image, is skipped: all processes run the same code, so all skip it.
type poisoned struct {
	times map[store.Position]int
	row   int // panics without an entry applied between them
}

// PoisonError says that the engine cannot apply an entry of the log.
type PoisonError struct {
	Seq     int64
	Skipped bool // it is skipped from now on
	Cause   error
}

// Error implements error.
func (e *PoisonError) Error() string {
	if e.Skipped {
		return fmt.Sprintf("entry %d of the log is skipped: %v", e.Seq, e.Cause)
	}
	return e.Cause.Error()
}

// Unwrap returns the cause.
func (e *PoisonError) Unwrap() error { return e.Cause }

// errSkipped is the error of a command that panics.
var errSkipped = errors.New("the command cannot be applied")

func (p *poisoned) skips(at store.Position) bool { return p.times[at] > 1 }

// poison has the state rebuilt after a panic, which may have left half of an entry behind.
func (r *Replica) poison(e *store.Entry, err error) {
	p := &r.poisoned
	if p.times == nil {
		p.times = make(map[store.Position]int)
	}
	p.times[e.At]++
	p.row++
	r.tell(&PoisonError{Seq: e.At.Seq, Skipped: p.skips(e.At), Cause: err})
	if p.row >= 3 && r.status == here {
		r.contact = time.Time{}
		r.leave()
	}
	r.status = catching
	r.change()
	r.done.Go(r.reload)
}
