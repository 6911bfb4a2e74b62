// Package notice has what a limiter tells its program: events (Outlet), errors of work in the
// background (Reporter), samples of what comes in great numbers (Sampler, Storm), names that no
// quota and no path knows, once a day (UnknownModels, UncountedPaths), and the context by which the
// events of a call find each other (CallContext).
package notice

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"reflect"
	"sync/atomic"
	"syscall"
	"time"

	"dappco.re/go/core/go-ratelimit/debounce"
	"dappco.re/go/core/go-ratelimit/internal/errtext"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// How long no other error of a kind is reported after one.
const (
	reportEvery = time.Second
	logEvery    = time.Minute // in the log

	lastWords = 100 * time.Millisecond // that Stop leaves to a log
)

// Reporter hands the errors of work in the background to a function, without a lock and without
// waiting for it, one call at a time; of the errors that come meanwhile it keeps the last of each
// kind. The limiter reports to Config.OnError by it, or to the log of the program where there is
// none. A nil Reporter reports nothing. All methods are safe for concurrent use.
type Reporter struct {
	onError func(error)
	logs    bool // errors have no kinds of their own, whose number nothing bounds
	every   time.Duration
	errs    *debounce.Coalescer[any, error]
	stopped atomic.Bool

	// Only deliver uses these.
	last  map[any]time.Time // when an error of a kind was reported, for every
	swept time.Time         // when others were last removed from it

	// The last error of each kind that the log did not get. Nothing else may ever tell of it: many
	// are reported once a day or less.
	withheld map[any]error
	again    *time.Timer // tries them once more; nil where there is none
}

// retryWithheld is the key by which deliver is told to try what was withheld.
type retryWithheld struct{}

// NewReporter returns a Reporter of a function. Nil stands for one that writes a warning to
// slog.Default, once a minute for each kind of error.
func NewReporter(onError func(error)) *Reporter {
	r := &Reporter{onError: onError, every: reportEvery, last: make(map[any]time.Time), withheld: make(map[any]error)}
	if onError == nil {
		r.onError, r.logs, r.every = logError, true, logEvery
	}
	r.errs = debounce.NewCoalescer(debounce.CoalescerOptions[error]{}, r.deliver)
	return r
}

// logError writes an error, which may name a model of any length, to the log of the program.
func logError(err error) {
	slog.Warn("ratelimit: Config.OnError is not set", "error", errtext.Cut(err.Error(), 1000))
}

// Report has an error reported, on a goroutine of the reporter, unless one of its kind was
// within the last second. The log gets the last one of a minute when that is over.
func (r *Reporter) Report(err error) {
	if r != nil {
		r.errs.Add(kindOf(err), err)
	}
}

// ReportAs is Report for an error of a kind of its own, but in the log.
func (r *Reporter) ReportAs(kind any, err error) {
	switch {
	case r == nil:
	case r.logs:
		r.Report(err)
	default:
		r.errs.Add(kind, err)
	}
}

// deliver is the action of the coalescer, which calls it for one batch at a time.
func (r *Reporter) deliver(errs map[any]error) {
	if _, asked := errs[retryWithheld{}]; asked {
		delete(errs, retryWithheld{})
		for kind, err := range r.withheld {
			if _, newer := errs[kind]; !newer {
				errs[kind] = err
			}
		}
		clear(r.withheld)
		r.again = nil
	}
	for kind, err := range errs {
		now := time.Now()                // onError may have taken long
		if now.Sub(r.swept) >= r.every { // not at each error: there may be one of each of many models
			maps.DeleteFunc(r.last, func(_ any, at time.Time) bool { return now.Sub(at) >= r.every })
			r.swept = now
		}
		if at, known := r.last[kind]; known && now.Sub(at) < r.every || r.stopped.Load() {
			if r.logs && !r.stopped.Load() {
				r.withholdFor(r.every-now.Sub(at), kind, err)
			}
			continue
		}
		r.last[kind] = now
		r.onError(err)
	}
}

// withholdFor has the log get an error after a time, unless a newer one of its kind comes.
func (r *Reporter) withholdFor(wait time.Duration, kind any, err error) {
	r.withheld[kind] = err
	if r.again == nil {
		r.again = time.AfterFunc(wait, func() { r.errs.Add(retryWithheld{}, nil) })
	}
}

// Stop ends the reports. The log gets those that are under way. Stop does not wait for a call of
// the function that is under way, which may be what calls Stop.
func (r *Reporter) Stop() {
	if r == nil {
		return
	}
	ended, cancel := context.WithTimeout(context.Background(), lastWords) // Stop waits for as long as that lasts
	defer cancel()
	if !r.logs {
		r.stopped.Store(true)
		cancel()
	}
	r.errs.Stop(ended)
	r.stopped.Store(true)
}

// kindOf returns what errors of the same kind have in common: the number that the
// system or the database gives them, or else the type of their innermost cause.
func kindOf(err error) any {
	var errno syscall.Errno
	var refusal interface{ Code() int } // of SQLite
	switch {
	case errors.Is(err, state.ErrCorrupt):
		return state.ErrCorrupt
	case errors.As(err, &errno):
		return errno
	case errors.As(err, &refusal):
		return refusal.Code()
	}
	for {
		cause := errors.Unwrap(err)
		if cause == nil {
			return reflect.TypeOf(err)
		}
		err = cause
	}
}
