package debounce_test

import (
	"slices"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/debounce"
)

// lodash is debounce of lodash 4.17, line by line, for one timer and a clock that
// is told what time it is. There is one correction: flush clears the timer, which
// there still rings and may cut the next burst short.
type lodash struct {
	wait, maxWait             time.Duration
	leading, trailing, maxing bool
	invoke                    func(value int)

	now        time.Duration
	args       *int
	lastCall   *time.Duration
	lastInvoke time.Duration
	timer      *time.Duration
}

func newLodash(opts debounce.Options, invoke func(int)) lodash {
	return lodash{
		wait:     opts.Delay,
		maxWait:  opts.MaxWait,
		maxing:   opts.MaxWait > 0,
		leading:  opts.Leading,
		trailing: opts.Trailing || !opts.Leading,
		invoke:   invoke,
	}
}

// throttleOptions are the options with which lodash's throttle calls its debounce.
func throttleOptions(interval time.Duration, opts debounce.Options) debounce.Options {
	if !opts.Leading && !opts.Trailing {
		opts.Leading, opts.Trailing = true, true
	}
	opts.Delay, opts.MaxWait = interval, interval
	return opts
}

func (l *lodash) setTimeout(after time.Duration) {
	at := l.now + after
	l.timer = &at
}

func (l *lodash) invokeFunc() {
	value := *l.args
	l.args = nil
	l.lastInvoke = l.now
	l.invoke(value)
}

func (l *lodash) leadingEdge() {
	l.lastInvoke = l.now
	l.setTimeout(l.wait)
	if l.leading {
		l.invokeFunc()
	}
}

func (l *lodash) remainingWait() time.Duration {
	sinceCall, sinceInvoke := l.now-*l.lastCall, l.now-l.lastInvoke
	if l.maxing {
		return min(l.wait-sinceCall, l.maxWait-sinceInvoke)
	}
	return l.wait - sinceCall
}

func (l *lodash) shouldInvoke() bool {
	return l.lastCall == nil || l.now-*l.lastCall >= l.wait ||
		l.maxing && l.now-l.lastInvoke >= l.maxWait
}

func (l *lodash) timerExpired() {
	if l.shouldInvoke() {
		l.trailingEdge()
		return
	}
	l.setTimeout(l.remainingWait())
}

func (l *lodash) trailingEdge() {
	l.timer = nil
	if l.trailing && l.args != nil {
		l.invokeFunc()
		return
	}
	l.args = nil
}

func (l *lodash) cancel() {
	l.lastInvoke = 0
	l.args, l.lastCall, l.timer = nil, nil, nil
}

func (l *lodash) flush() {
	if l.timer != nil {
		l.trailingEdge()
	}
}

func (l *lodash) call(value int) {
	isInvoking := l.shouldInvoke()
	now := l.now
	l.args, l.lastCall = &value, &now
	if isInvoking {
		if l.timer == nil {
			l.leadingEdge()
			return
		}
		if l.maxing {
			l.setTimeout(l.wait)
			l.invokeFunc()
			return
		}
	}
	if l.timer == nil {
		l.setTimeout(l.wait)
	}
}

// oracle is lodash with actions that take a while, and with Stop. What lodash
// wants to run while a run is under way follows it, the last value only, and counts
// from when it begins.
type oracle struct {
	lodash
	takes   func(value int) time.Duration
	drop    bool
	stopped bool

	running  bool
	ends     time.Duration // when the run under way does
	due      *int
	flushing bool            // a Flush waits for the run under way
	stops    []time.Duration // when the contexts of the Stops that wait end

	notes []note
	// tied is set when the timer and an end fall on one instant, so that either
	// order is right.
	tied bool
}

func newOracle(opts debounce.Options, takes func(int) time.Duration) *oracle {
	o := &oracle{takes: takes, drop: opts.DropOnStop}
	o.lodash = newLodash(opts, o.run)
	return o
}

func (o *oracle) note(what string) { o.notes = append(o.notes, note{o.now, what}) }

func (o *oracle) run(value int) {
	if o.running {
		o.due = &value
		return
	}
	o.note(noteRun(value))
	if o.takes(value) == 0 {
		return
	}
	o.running, o.ends = true, o.now+o.takes(value)
}

func (o *oracle) end() {
	o.running = false
	if o.flushing {
		o.flushing = false
		o.note(noteFlushed)
	}
	if value := o.due; value != nil {
		o.due = nil
		o.lastInvoke = o.now
		o.run(*value)
	}
	if !o.running {
		for range o.stops {
			o.note(noteStopped(nil))
		}
		o.stops = nil
	}
}

// advance has everything happen that does until an instant.
func (o *oracle) advance(until time.Duration) {
	for {
		next := until + 1
		if o.timer != nil {
			next = min(next, *o.timer)
		}
		if o.running {
			next = min(next, o.ends)
		}
		for _, at := range o.stops {
			next = min(next, at)
		}
		if next > until {
			break
		}
		o.now = next
		rings := o.timer != nil && *o.timer == next
		ends := o.running && o.ends == next
		gaveUp := len(o.stops)
		o.stops = slices.DeleteFunc(o.stops, func(at time.Duration) bool { return at == next })
		gaveUp -= len(o.stops)
		if rings && ends || gaveUp > 0 && (rings || ends) {
			o.tied = true
		}
		for range gaveUp {
			o.note(noteStopped(errDeadline))
		}
		if ends {
			o.end()
		}
		if rings {
			o.timerExpired()
		}
	}
	o.now = until
}

func (o *oracle) do(s step) {
	o.advance(s.at - 1)
	if o.timer != nil && *o.timer == s.at || o.running && o.ends == s.at || slices.Contains(o.stops, s.at) {
		o.tied = true
	}
	o.now = s.at
	switch s.op {
	case opTrigger:
		if !o.stopped {
			o.call(s.value)
		}
	case opCancel:
		o.cancel()
		o.due = nil
	case opPending:
		o.note(notePending(o.trailing && o.args != nil || o.due != nil))
	case opFlush:
		busy := o.running
		o.flush()
		if o.flushing = o.flushing || !busy && o.running; busy || !o.running {
			o.note(noteFlushed)
		}
	case opStop:
		if !o.stopped {
			o.stopped = true
			if o.drop {
				o.cancel()
				o.due = nil
			} else {
				o.flush()
			}
		}
		if o.running {
			o.stops = append(o.stops, s.at+stopTimeout(s.value))
		} else {
			o.note(noteStopped(nil))
		}
	}
}

// play tells what a script comes to.
func (o *oracle) play(script []step) []note {
	for _, s := range script {
		o.do(s)
	}
	o.advance(o.now + time.Hour)
	return sortNotes(o.notes)
}

// The oracle itself does what lodash did.
func TestOracleFollowsLodash(t *testing.T) {
	for i, v := range readVectors(t) {
		var script []step
		for _, e := range v.Events {
			op := e.op
			if op == "call" {
				op = opTrigger
			}
			script = append(script, step{time.Duration(e.at) * time.Millisecond, op, e.value})
		}
		var got, want []note
		o := newOracle(debounce.Options{
			Delay:    time.Duration(v.Wait) * time.Millisecond,
			MaxWait:  time.Duration(v.Opts.MaxWait) * time.Millisecond,
			Leading:  v.Opts.Leading,
			Trailing: v.Opts.Trailing,
		}, noTime)
		for _, n := range o.play(script) {
			if n.what != noteFlushed {
				got = append(got, n)
			}
		}
		for _, w := range v.Want {
			want = append(want, note{time.Duration(w[0]) * time.Millisecond, noteRun(w[1])})
		}
		if !slices.Equal(got, want) {
			t.Errorf("vector %d: wait %d, %+v\ngot  %v\nwant %v", i, v.Wait, v.Opts, got, want)
		}
	}
}
