package sharedlogtest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// Store is an empty store of which Exercise opens logs.
type Store interface {
	// Open opens the store for a process. span is how long a charge counts for it, in
	// nanoseconds, and ttl how long its lease holds.
	Open(t *testing.T, process, span int64, ttl time.Duration) sharedlog.Log
	// Kill has a process die without a word. It reports whether the store can do that.
	Kill(process int64) bool
	// Replace puts an empty log in the place of the one that there is. It reports whether the
	// store can do that.
	Replace(t *testing.T) bool
	// Excludes reports whether a step excludes those of other processes. If not, a Commit
	// conflicts with what they have written meanwhile.
	Excludes() bool
}

// Renewer is a Store whose logs renew their leases by themselves for as long as they are open.
type Renewer interface{ RenewsLeases() }

// Exercise tests whether the logs of a store keep to what sharedlog.Log says. open makes a new
// store, in a bubble of testing/synctest, where the log must work.
func Exercise(t *testing.T, open func(t *testing.T) Store) {
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test.run(&exercise{t, open(t), 10 * time.Second, false}) })
		})
	}
}

// ExerciseLive is Exercise for a store that works by real sockets, which no bubble has. Some of the
// tests wait for a lease to end.
func ExerciseLive(t *testing.T, open func(t *testing.T) Store) {
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(&exercise{t, open(t), time.Second, true}) })
	}
}

var tests = []struct {
	name string
	run  func(e *exercise)
}{
	{"events keep their order and their fields", (*exercise).order},
	{"a rolled back step leaves nothing", (*exercise).rollback},
	{"a step excludes others or conflicts", (*exercise).conflict},
	{"missing events are noticed", (*exercise).missing},
	{"days are those after the last event", (*exercise).days},
	{"how far the days are folded", (*exercise).folded},
	{"quotas and cooldowns", (*exercise).tables},
	{"who said quotas", (*exercise).origins},
	{"what was found of limits", (*exercise).found},
	{"members of pools", (*exercise).pools},
	{"what was spent", (*exercise).spent},
	{"classes and lines", (*exercise).classes},
	{"a reset ends cooldowns of all names of a model", (*exercise).names},
	{"own events are known by their numbers", (*exercise).numbers},
	{"leases", (*exercise).leases},
	{"dead processes", (*exercise).dead},
	{"a replaced log has another identity", (*exercise).identity},
	{"the longest span counts", (*exercise).span},
	{"readers beside a step", (*exercise).readers},
	{"an ended context", (*exercise).context},
	{"a closed log fails", (*exercise).close},
	{"what is long over is swept", (*exercise).sweep},
}

// exercise is one test of a store.
type exercise struct {
	t     *testing.T
	store Store
	ttl   time.Duration
	live  bool // in real time
}

const exerciseSpan = int64(time.Minute)

// open opens a log and brings it to its end.
func (e *exercise) open(process int64) (sharedlog.Log, *sharedlog.Image) {
	e.t.Helper()
	log := e.store.Open(e.t, process, exerciseSpan, e.ttl)
	e.t.Cleanup(func() { log.Close() })
	return log, e.join(log)
}

// join brings a log to its end, and renews its lease.
func (e *exercise) join(log sharedlog.Log) *sharedlog.Image {
	e.t.Helper()
	step := e.begin(log, sharedlog.Everything)
	img := step.News().Image
	if img == nil || img.Identity == "" {
		e.t.Fatalf("everything is %+v", step.News())
	}
	e.commit(step, &sharedlog.Batch{Renew: true})
	return img
}

func (e *exercise) begin(log sharedlog.Log, seen int64) sharedlog.Step {
	e.t.Helper()
	step, err := log.Begin(e.t.Context(), seen)
	if err != nil {
		e.t.Fatalf("Begin: %v", err)
	}
	return step
}

func (e *exercise) commit(step sharedlog.Step, b *sharedlog.Batch) int64 {
	e.t.Helper()
	b.Wall = time.Now().UnixNano()
	first, err := step.Commit(b)
	if err != nil {
		e.t.Fatalf("Commit: %v", err)
	}
	return first
}

// write writes events of a log that has seen all before a place.
func (e *exercise) write(log sharedlog.Log, seen int64, events ...*sharedlog.Event) {
	e.t.Helper()
	if first := e.commit(e.begin(log, seen), &sharedlog.Batch{Events: events}); first != seen+1 {
		e.t.Errorf("the events behind %d have place %d", seen, first)
	}
}

// image returns everything that there is.
func (e *exercise) image(log sharedlog.Log) *sharedlog.Image {
	e.t.Helper()
	step := e.begin(log, sharedlog.Everything)
	defer step.Rollback()
	return step.News().Image
}

// read returns the events behind a place.
func (e *exercise) read(log sharedlog.Log, seen int64) []*sharedlog.Event {
	e.t.Helper()
	news, err := log.Read(e.t.Context(), seen)
	if err != nil {
		e.t.Fatalf("Read: %v", err)
	}
	return news.Events
}

func use(process, n int64) *sharedlog.Event {
	return &sharedlog.Event{
		Process: process, N: n, Kind: sharedlog.Use, Model: "m", Wall: time.Now().UnixNano(), Requests: 1,
		Count: tokens.Count{Input: 3, Output: 4},
	}
}

// numbersOf returns the numbers of events, after a check of their places.
func (e *exercise) numbersOf(events []*sharedlog.Event, seen int64) (numbers []int64) {
	e.t.Helper()
	for i, event := range events {
		if event.Seq != seen+1+int64(i) {
			e.t.Errorf("event %d behind %d has place %d", i, seen, event.Seq)
		}
		numbers = append(numbers, event.N)
	}
	return numbers
}

func (e *exercise) order() {
	a, _ := e.open(1)
	b, img := e.open(2)
	if len(img.Events) != 0 {
		e.t.Errorf("a new log has %+v", img.Events)
	}
	full := &sharedlog.Event{
		Process: 1, N: 1, Kind: sharedlog.Move, Ref: 7, Model: "a model", At: 5, Wall: 11, Mono: 12, Age: 13, Requests: 2,
		Count: tokens.Count{Input: 14, Output: 15}, Day: state.DayUsage{Start: 16, Count: 17, Tokens: 18}, HasDay: true, Text: "[19]",
	}
	e.write(a, 0, full, use(1, 2))
	e.write(b, 2, use(2, 1))
	e.write(a, 3, use(1, 3), use(1, 4))
	want := []int64{1, 2, 1, 3, 4}
	for _, log := range []sharedlog.Log{a, b} {
		for seen := range int64(len(want)) {
			if got := e.numbersOf(e.read(log, seen), seen); !slices.Equal(got, want[seen:]) {
				e.t.Errorf("behind %d are %v, want %v", seen, got, want[seen:])
			}
			step := e.begin(log, seen)
			if got := e.numbersOf(step.News().Events, seen); !slices.Equal(got, want[seen:]) || step.News().Image != nil {
				e.t.Errorf("a step behind %d is told %v, want %v", seen, got, want[seen:])
			}
			step.Rollback()
		}
		if got := e.numbersOf(e.image(log).Events, 0); !slices.Equal(got, want) {
			e.t.Errorf("everything is %v, want %v", got, want)
		}
		stored := *e.read(log, 0)[0]
		is := *full
		is.Seq, is.At, stored.At = 1, 0, 0
		if e.live && max(stored.Wall-is.Wall, is.Wall-stored.Wall) < int64(time.Second) {
			stored.Wall = is.Wall // the store's clock goes on
		}
		if stored != is {
			e.t.Errorf("an event came back as\n%+v, want\n%+v", stored, is)
		}
		if e.read(log, 5); log.Stale(5) || !log.Stale(4) {
			e.t.Error("Stale does not know that 5 is the last place")
		}
	}
}

func (e *exercise) rollback() {
	a, _ := e.open(1)
	e.write(a, 0, use(1, 1))
	e.begin(a, 1).Rollback()
	e.commit(e.begin(a, 1), &sharedlog.Batch{Renew: true})
	e.write(a, 1, use(1, 2))
	if got := e.numbersOf(e.read(a, 0), 0); !slices.Equal(got, []int64{1, 2}) {
		e.t.Errorf("there are %v", got)
	}
}

func (e *exercise) conflict() {
	a, _ := e.open(1)
	b, _ := e.open(2)
	e.write(a, 0, use(1, 1))
	slow := e.begin(b, 0)
	if e.store.Excludes() {
		ctx, cancel := context.WithCancel(e.t.Context())
		cancel()
		if step, err := a.Begin(ctx, 1); !errors.Is(err, sharedlog.ErrNoTime) {
			e.t.Errorf("a second step: %v, %v", step, err)
		}
		if first := e.commit(slow, &sharedlog.Batch{Events: []*sharedlog.Event{use(2, 1)}}); first != 2 {
			e.t.Errorf("the event has place %d", first)
		}
		return
	}
	for round := range int64(3) {
		seen := 1 + 2*round
		e.write(a, seen, use(1, 2*round+2), use(1, 2*round+3))
		_, err := slow.Commit(&sharedlog.Batch{Events: []*sharedlog.Event{use(2, 1)}})
		if !errors.Is(err, sharedlog.ErrConflict) {
			e.t.Fatalf("round %d: %v", round, err)
		}
		if got := e.numbersOf(slow.News().Events, seen); !slices.Equal(got, []int64{2*round + 2, 2*round + 3}) {
			e.t.Errorf("round %d: the news are %v", round, got)
		}
		if n := len(e.read(a, 0)); n != int(seen)+2 {
			e.t.Errorf("round %d: there are %d events", round, n)
		}
	}
	if first := e.commit(slow, &sharedlog.Batch{Events: []*sharedlog.Event{use(2, 1)}}); first != 8 {
		e.t.Errorf("the event has place %d", first)
	}
}

func (e *exercise) missing() {
	a, _ := e.open(1)
	b, _ := e.open(2)
	first := use(1, 1)
	first.Day, first.HasDay = state.DayUsage{Start: time.Now().UnixNano(), Count: 4, Tokens: 5}, true
	second := use(1, 2)
	e.write(a, 0, first, second, use(1, 3))
	first.Seq, second.Seq = 1, 2
	e.commit(e.begin(a, 3), &sharedlog.Batch{
		Events: []*sharedlog.Event{use(1, 4)}, Passed: []*sharedlog.Event{first, second}, Drops: [][2]int64{{1, 1}, {2, 2}},
	})
	for _, seen := range []int64{0, 1} {
		if _, err := b.Read(e.t.Context(), seen); !errors.Is(err, sharedlog.ErrIncomplete) {
			e.t.Errorf("Read behind %d: %v", seen, err)
		}
	}
	step := e.begin(b, 0)
	img := step.News().Image
	step.Rollback()
	if img == nil || len(img.Events) != 2 || !img.Days["m"].Same(first.Day) {
		e.t.Errorf("a step is told %+v", img)
	}
	if got := e.numbersOf(e.read(b, 2), 2); !slices.Equal(got, []int64{3, 4}) {
		e.t.Errorf("behind what is missing are %v", got)
	}
}

func (e *exercise) numbers() {
	a, _ := e.open(1)
	e.write(a, 0, use(1, 1), use(1, 2))
	if err := a.Close(); err != nil {
		e.t.Error(err)
	}
	// A process that does not know whether a Commit went through finds its events.
	a = e.store.Open(e.t, 1, exerciseSpan, e.ttl)
	defer a.Close()
	keys := make(map[sharedlog.Key]int)
	for _, event := range e.join(a).Events {
		keys[event.Key()]++
	}
	if len(keys) != 2 || keys[sharedlog.Key{Process: 1, N: 1}] != 1 || keys[sharedlog.Key{Process: 1, N: 2}] != 1 {
		e.t.Errorf("there are %v", keys)
	}
}
