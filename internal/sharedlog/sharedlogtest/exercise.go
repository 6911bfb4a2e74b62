package sharedlogtest

import (
	"context"
	"errors"
	"slices"
	"sync"
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

// Exercise tests whether the logs of a store keep to what sharedlog.Log says. open makes a new
// store, in a bubble of testing/synctest, where the log must work.
func Exercise(t *testing.T, open func(t *testing.T) Store) {
	for _, test := range []struct {
		name string
		run  func(e *exercise)
	}{
		{"events keep their order and their fields", (*exercise).order},
		{"a rolled back step leaves nothing", (*exercise).rollback},
		{"a step excludes others or conflicts", (*exercise).conflict},
		{"missing events are noticed", (*exercise).missing},
		{"days are those after the last event", (*exercise).days},
		{"quotas and cooldowns", (*exercise).tables},
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
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test.run(&exercise{t, open(t)}) })
		})
	}
}

// exercise is one test of a store.
type exercise struct {
	t     *testing.T
	store Store
}

const (
	exerciseSpan = int64(time.Minute)
	exerciseTTL  = 10 * time.Second
)

// open opens a log and brings it to its end.
func (e *exercise) open(process int64) (sharedlog.Log, *sharedlog.Image) {
	e.t.Helper()
	log := e.store.Open(e.t, process, exerciseSpan, exerciseTTL)
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

func (e *exercise) days() {
	a, _ := e.open(1)
	now := time.Now().UnixNano()
	day := func(n int64, model string, count int64) *sharedlog.Event {
		event := use(1, n)
		event.Model, event.Day, event.HasDay = model, state.DayUsage{Start: now, Count: count, Tokens: 10 * count}, true
		return event
	}
	wants := func(when string, want map[string]int64) {
		e.t.Helper()
		img := e.image(a)
		for _, model := range []string{"a", "b", "c"} {
			if got := img.Days[model].Count; got != want[model] {
				e.t.Errorf("%s: the day of %s has %d requests, want %d", when, model, got, want[model])
			}
		}
	}
	events := []*sharedlog.Event{
		day(1, "a", 1), day(2, "b", 1), day(3, "a", 2), {Process: 1, N: 4, Kind: sharedlog.Reset, Model: "b"},
		day(5, "c", 7), day(6, "b", 3),
	}
	e.write(a, 0, events...)
	wants("after the events", map[string]int64{"a": 2, "b": 3, "c": 7})
	// They go in two pieces; the first of the rest is in force still.
	for i, event := range events {
		event.Seq = int64(i) + 1
	}
	e.commit(e.begin(a, 6), &sharedlog.Batch{Events: []*sharedlog.Event{use(1, 7)}, Passed: events[:2], Drops: [][2]int64{{1, 2}}})
	wants("after two of them have gone", map[string]int64{"a": 2, "b": 3, "c": 7})
	e.commit(e.begin(a, 7), &sharedlog.Batch{Events: []*sharedlog.Event{use(1, 8)}, Passed: events[2:], Drops: [][2]int64{{4, 6}}})
	wants("after all but one of them have gone", map[string]int64{"a": 2, "b": 3, "c": 7})
	e.write(a, 8, &sharedlog.Event{Process: 1, N: 9, Kind: sharedlog.Reset}, day(10, "c", 1))
	wants("after all was forgotten", map[string]int64{"c": 1})
}

func (e *exercise) tables() {
	a, _ := e.open(1)
	until := time.Now().Add(time.Hour).UnixNano()
	first, last := state.Quota{MaxRPM: 1}, state.Quota{MaxRPM: 2, MaxTPD: 3, DayZone: "Asia/Tokyo", Burst: time.Second}
	e.write(a, 0,
		&sharedlog.Event{Process: 1, N: 1, Kind: sharedlog.Quota, Model: "m", Text: sharedlog.QuotaText(first)},
		&sharedlog.Event{Process: 1, N: 2, Kind: sharedlog.Quota, Model: "m", Text: sharedlog.QuotaText(last)},
		&sharedlog.Event{Process: 1, N: 3, Kind: sharedlog.Cooldown, Model: "m", Wall: until},
		&sharedlog.Event{Process: 1, N: 4, Kind: sharedlog.Cooldown, Model: "m", Wall: until - 1},
		&sharedlog.Event{Process: 1, N: 5, Kind: sharedlog.Cooldown, Model: "other", Wall: until},
	)
	img := e.image(a)
	if img.Quotas["m"] != last || len(img.Quotas) != 1 {
		e.t.Errorf("the quotas are %+v", img.Quotas)
	}
	if img.Cooldowns["m"] != until || img.Cooldowns["other"] != until {
		e.t.Errorf("the cooldowns are %+v", img.Cooldowns)
	}
	e.write(a, 5, &sharedlog.Event{Process: 1, N: 6, Kind: sharedlog.Reset, Model: "m"})
	if img := e.image(a); len(img.Cooldowns) != 1 || img.Quotas["m"] != last {
		e.t.Errorf("after a reset there are %+v and %+v", img.Cooldowns, img.Quotas)
	}
	e.write(a, 6, &sharedlog.Event{Process: 1, N: 7, Kind: sharedlog.Reset})
	if img := e.image(a); len(img.Cooldowns) != 0 || len(img.Quotas) != 1 {
		e.t.Errorf("after a reset of all there are %+v and %+v", img.Cooldowns, img.Quotas)
	}
}

func (e *exercise) names() {
	a, _ := e.open(1)
	until := time.Now().Add(time.Hour).UnixNano()
	e.write(a, 0,
		&sharedlog.Event{Process: 1, N: 1, Kind: sharedlog.Cooldown, Model: "m-2024-08-06", Wall: until},
		&sharedlog.Event{Process: 1, N: 2, Kind: sharedlog.Cooldown, Model: "other", Wall: until},
	)
	e.commit(e.begin(a, 2), &sharedlog.Batch{
		Events: []*sharedlog.Event{{Process: 1, N: 3, Kind: sharedlog.Reset, Model: "m"}},
		NameOf: func(model string) string {
			if model == "m-2024-08-06" {
				return "m"
			}
			return model
		},
	})
	if img := e.image(a); len(img.Cooldowns) != 1 || img.Cooldowns["other"] != until {
		e.t.Errorf("the cooldowns are %+v", img.Cooldowns)
	}
}

func (e *exercise) numbers() {
	a, _ := e.open(1)
	e.write(a, 0, use(1, 1), use(1, 2))
	if err := a.Close(); err != nil {
		e.t.Error(err)
	}
	// A process that does not know whether a Commit went through finds its events.
	a = e.store.Open(e.t, 1, exerciseSpan, exerciseTTL)
	defer a.Close()
	keys := make(map[sharedlog.Key]int)
	for _, event := range e.join(a).Events {
		keys[event.Key()]++
	}
	if len(keys) != 2 || keys[sharedlog.Key{Process: 1, N: 1}] != 1 || keys[sharedlog.Key{Process: 1, N: 2}] != 1 {
		e.t.Errorf("there are %v", keys)
	}
}

func (e *exercise) leases() {
	a, _ := e.open(1)
	b, img := e.open(2)
	if !slices.Contains(img.Processes, 1) || slices.Contains(img.Processes, 2) {
		e.t.Errorf("the second process is told of %v", img.Processes)
	}
	if life := b.Owner(1); life != sharedlog.Alive {
		e.t.Errorf("at first it is %v", life)
	}
	time.Sleep(exerciseTTL + time.Millisecond)
	if life := b.Owner(1); life != sharedlog.Silent {
		e.t.Errorf("without a renewal it is %v", life)
	}
	e.commit(e.begin(a, 0), &sharedlog.Batch{Renew: true})
	if life := b.Owner(1); life != sharedlog.Alive {
		e.t.Errorf("renewed it is %v", life)
	}
	e.write(a, 0, &sharedlog.Event{Process: 1, N: 1, Kind: sharedlog.Gone, Ref: 1})
	if img := e.image(b); slices.Contains(img.Processes, 1) && len(img.Events) == 0 {
		e.t.Errorf("after it went there are %v", img.Processes)
	}
}

func (e *exercise) dead() {
	e.open(1)
	b, _ := e.open(2)
	if !e.store.Kill(1) {
		e.t.Skip("the store cannot kill a process")
	}
	if life := b.Owner(1); life != sharedlog.Dead {
		e.t.Errorf("a killed process is %v", life)
	}
	if life := b.Owner(2); life != sharedlog.Alive {
		e.t.Errorf("the process itself is %v", life)
	}
}

func (e *exercise) identity() {
	a, img := e.open(1)
	_, other := e.open(2)
	if img.Identity != other.Identity {
		e.t.Errorf("one log is %q and %q", img.Identity, other.Identity)
	}
	e.write(a, 0, use(1, 1))
	if !e.store.Replace(e.t) {
		e.t.Skip("the store cannot replace its log")
	}
	if step, err := a.Begin(e.t.Context(), 1); err == nil {
		step.Rollback()
		e.t.Error("a step goes on in another log")
	}
	if img := e.image(a); img.Identity == other.Identity || len(img.Events) != 0 {
		e.t.Errorf("the other log is %+v", img)
	}
}

func (e *exercise) span() {
	e.open(1)
	long := e.store.Open(e.t, 2, 7*exerciseSpan, exerciseTTL)
	defer long.Close()
	e.join(long)
	for _, process := range []int64{2, 3} {
		log := e.store.Open(e.t, 10+process, exerciseSpan, exerciseTTL)
		defer log.Close()
		step := e.begin(log, sharedlog.Everything)
		if span := step.News().Span; span != 7*exerciseSpan {
			e.t.Errorf("the span is %v", time.Duration(span))
		}
		step.Rollback()
	}
}

func (e *exercise) readers() {
	a, _ := e.open(1)
	b, _ := e.open(2)
	e.write(a, 0, use(1, 1))
	step := e.begin(a, 1)
	var readers sync.WaitGroup
	for _, log := range []sharedlog.Log{a, b} {
		for range 4 {
			readers.Go(func() {
				for range 10 {
					log.Stale(1)
					log.Clock()
					news, err := log.Read(context.Background(), 0)
					if err != nil && !errors.Is(err, sharedlog.ErrNoTime) {
						e.t.Error(err)
					} else if err == nil && len(news.Events) > 1 {
						e.t.Errorf("%d events while the second is not written", len(news.Events))
					}
				}
			})
		}
	}
	readers.Wait()
	e.commit(step, &sharedlog.Batch{Events: []*sharedlog.Event{use(1, 2)}})
	if n := len(e.read(b, 0)); n != 2 {
		e.t.Errorf("%d events in the end", n)
	}
}

func (e *exercise) context() {
	a, _ := e.open(1)
	ctx, cancel := context.WithCancel(e.t.Context())
	cancel()
	for _, seen := range []int64{0, sharedlog.Everything} {
		if step, err := a.Begin(ctx, seen); !errors.Is(err, sharedlog.ErrNoTime) {
			e.t.Errorf("Begin(%d): %v, %v", seen, step, err)
		}
	}
	e.write(a, 0, use(1, 1))
}

func (e *exercise) close() {
	a, _ := e.open(1)
	b, _ := e.open(2)
	if err := a.Close(); err != nil {
		e.t.Errorf("Close: %v", err)
	}
	if step, err := a.Begin(e.t.Context(), 0); err == nil {
		step.Rollback()
		e.t.Error("a closed log begins a step")
	}
	if _, err := a.Read(e.t.Context(), 0); err == nil {
		e.t.Error("a closed log is read")
	}
	e.write(b, 0, use(2, 1))
}

func (e *exercise) sweep() {
	a, _ := e.open(1)
	now := time.Now()
	ages := map[string]time.Duration{"new": time.Hour, "old": 30 * 24 * time.Hour}
	var events []*sharedlog.Event
	for _, model := range []string{"new", "old"} {
		at := now.Add(-ages[model]).UnixNano()
		event := use(1, int64(len(events)+1))
		event.Model, event.Day, event.HasDay = model, state.DayUsage{Start: at, Count: 1}, true
		events = append(events, event)
		events = append(events, &sharedlog.Event{Process: 1, N: int64(len(events) + 1), Kind: sharedlog.Cooldown, Model: model, Wall: at})
	}
	e.write(a, 0, events...)
	for i, event := range events {
		event.Seq = int64(i) + 1
	}
	e.commit(e.begin(a, 4), &sharedlog.Batch{
		Events: []*sharedlog.Event{use(1, 5)}, Passed: events, Drops: [][2]int64{{1, 4}}, Sweep: true,
	})
	e.commit(e.begin(a, 5), &sharedlog.Batch{Events: []*sharedlog.Event{use(1, 6)}, Sweep: true})
	img := e.image(a)
	_, newDay := img.Days["new"]
	_, oldDay := img.Days["old"]
	_, oldCooldown := img.Cooldowns["old"]
	if !newDay || oldDay || oldCooldown {
		e.t.Errorf("the days are %+v, the cooldowns %+v", img.Days, img.Cooldowns)
	}
}
