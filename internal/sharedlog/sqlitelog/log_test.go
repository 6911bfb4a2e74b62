//go:build !nosqlite

package sqlitelog

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/fsx"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// TestMain has no symbolic link on the way to the temporary files, as macOS has: errors name the
// file that the link leads to, and tests compare that with their paths.
func TestMain(m *testing.M) {
	if temp, err := filepath.EvalSymlinks(os.TempDir()); err == nil {
		os.Setenv("TMPDIR", temp)
	}
	os.Exit(m.Run())
}

// options are those of a process, on a time line of its own that begins with the test.
func options(process int64, change ...func(*Options)) Options {
	began := time.Now()
	o := Options{
		Process: process, LeaseTTL: 10 * time.Second, Span: int64(time.Minute),
		Now: func() (instant, wall int64) { return int64(time.Since(began)), time.Now().UnixNano() },
	}
	for _, c := range change {
		c(&o)
	}
	return o
}

func openLog(t *testing.T, path string, o Options) *Log {
	t.Helper()
	l, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func begin(t *testing.T, l *Log, seen int64) sharedlog.Step {
	t.Helper()
	s, err := l.Begin(t.Context(), seen)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// commit writes events of a process in a step, and returns the place of the first.
func commit(t *testing.T, l *Log, s sharedlog.Step, events ...*sharedlog.Event) int64 {
	t.Helper()
	wall, mono := l.clocks()
	for _, e := range events {
		e.Process = l.options.Process
	}
	first, err := s.Commit(&sharedlog.Batch{Events: events, Renew: true, Wall: wall, Mono: mono})
	if err != nil {
		t.Fatal(err)
	}
	return first
}

// joinLog brings a log to the end of its database, with a lease, and returns what that said.
func joinLog(t *testing.T, l *Log) *sharedlog.Image {
	t.Helper()
	s := begin(t, l, sharedlog.Everything)
	image := s.News().Image
	commit(t, l, s)
	return image
}

func use(n int64) *sharedlog.Event {
	return &sharedlog.Event{N: n, Kind: sharedlog.Use, Model: "m", Requests: 1, Count: tokens.Count{Input: 3, Output: 4}}
}

func TestLogTellsOthersEvents(t *testing.T) {
	synctest.Test(t, tellsOthersEvents) // where time stands still
}

func tellsOthersEvents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	one, other := openLog(t, path, options(1)), openLog(t, path, options(2))
	if image := joinLog(t, one); len(image.Events) != 0 || image.Identity == "" || len(image.Processes) != 0 {
		t.Errorf("a new log says %+v", image)
	}
	e := use(1)
	e.Wall, e.Mono, e.Age, e.Text = 5, 6, 7, "text"
	e.Day, e.HasDay = state.DayUsage{Start: 8, Count: 9, Tokens: 10}, true
	if first := commit(t, one, begin(t, one, 0), e, use(2)); first != 1 {
		t.Errorf("the first event got place %d", first)
	}
	image := joinLog(t, other)
	want := *e
	want.Seq = 1
	if len(image.Events) != 2 || *image.Events[0] != want || !slices.Equal(image.Processes, []int64{1}) {
		t.Errorf("the other is told %+v", image)
	}
	if !other.Stale(2) {
		t.Error("the mark is trusted before anything was read")
	}
	if news, err := other.Read(t.Context(), 2); err != nil || len(news.Events) != 0 {
		t.Errorf("read %+v, %v", news, err)
	}
	if other.Stale(2) || !other.Stale(1) {
		t.Error("the mark is not that of the last event")
	}
	if first := commit(t, one, begin(t, one, 2), use(3)); first != 3 {
		t.Errorf("the third event got place %d", first)
	}
	if !other.Stale(2) {
		t.Error("the news do not show")
	}
	for range 2 { // a reader that asks again for what was read is told again
		news, err := other.Read(t.Context(), 2)
		if err != nil || len(news.Events) != 1 || news.Events[0].N != 3 {
			t.Errorf("read %+v, %v", news, err)
		}
	}
	if news, err := other.Read(t.Context(), 3); err != nil || len(news.Events) != 0 {
		t.Errorf("read %+v, %v", news, err)
	}
	if other.Stale(3) {
		t.Error("the mark is not trusted after a Read")
	}
	time.Sleep(checkEvery)
	if !other.Stale(3) {
		t.Error("the mark is trusted for ever")
	}
	s := begin(t, other, 2)
	if news := s.News(); len(news.Events) != 1 || news.Image != nil {
		t.Errorf("the step is told %+v", news)
	}
	s.Rollback()
	if s := begin(t, other, 3); len(s.News().Events) != 0 {
		t.Errorf("the step is told %+v", s.News())
	} else {
		s.Rollback()
	}
}

// Where events were deleted before they were read, a reader learns it, and a step gets all.
func TestLogWithMissingEvents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	one, other := openLog(t, path, options(1)), openLog(t, path, options(2))
	joinLog(t, one)
	joinLog(t, other)
	first, second := use(1), use(2)
	first.Day, first.HasDay = state.DayUsage{Start: time.Now().UnixNano(), Count: 4, Tokens: 5}, true
	commit(t, one, begin(t, one, 0), first, second, use(3))
	first.Seq, second.Seq = 1, 2
	s := begin(t, one, 3)
	if _, err := s.Commit(&sharedlog.Batch{
		Events: []*sharedlog.Event{{Process: 1, N: 4, Kind: sharedlog.Use, Model: "m"}},
		Passed: []*sharedlog.Event{first, second}, Drops: [][2]int64{{1, 2}},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Read(t.Context(), 0); !errors.Is(err, sharedlog.ErrIncomplete) {
		t.Errorf("read: %v", err)
	}
	s = begin(t, other, 0)
	news := s.News()
	s.Rollback()
	if news.Image == nil || len(news.Image.Events) != 2 || news.Image.Days["m"].Count != 4 || news.Folded != 2 {
		t.Errorf("the step is told %+v", news)
	}
	if news, err := other.Read(t.Context(), 2); err != nil || len(news.Events) != 2 {
		t.Errorf("behind what is missing: %+v, %v", news, err)
	}
}

// What events say of quotas, cooldowns and days is in the image, also of names that count as
// others.
func TestLogTables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	l := openLog(t, path, options(1))
	q := state.Quota{MaxRPM: 3, MaxInFlight: 2, DayZone: "Asia/Tokyo"}
	until := time.Now().Add(time.Hour).UnixNano()
	cools := state.Cooldown{Until: time.Unix(0, until), Cause: "daily_quota"}
	events := []*sharedlog.Event{
		{N: 1, Kind: sharedlog.Quota, Model: "m", Text: sharedlog.QuotaText(q)},
		{N: 2, Kind: sharedlog.Cooldown, Model: "m-1", Wall: until, Text: "daily_quota"},
		{N: 3, Kind: sharedlog.Cooldown, Model: "m-1", Wall: until - 1, Text: "overloaded"},
		{N: 4, Kind: sharedlog.Cooldown, Model: "other", Wall: until},
		{N: 5, Kind: sharedlog.Day, Model: "m", Day: state.DayUsage{Start: 1, Count: 2, Tokens: 3}, HasDay: true},
	}
	s := begin(t, l, sharedlog.Everything)
	commit(t, l, s, events...)
	image := joinLog(t, l)
	if image.Quotas["m"] != q || !image.Cooldowns["m-1"].Same(cools) || image.Days["m"] != (state.DayUsage{Start: 1, Count: 2, Tokens: 3}) {
		t.Errorf("the log says %+v", image)
	}
	s = begin(t, l, 5)
	if _, err := s.Commit(&sharedlog.Batch{
		Events: []*sharedlog.Event{{Process: 1, N: 6, Kind: sharedlog.Reset, Model: "m"}},
		NameOf: func(model string) string { return strings.TrimSuffix(model, "-1") },
	}); err != nil {
		t.Fatal(err)
	}
	if image := joinLog(t, l); len(image.Days) != 0 || len(image.Cooldowns) != 1 || image.Cooldowns["other"].Until.UnixNano() != until {
		t.Errorf("after a reset the log says %+v", image)
	}
}

// A caller whose time is over is told so, and nothing is wrong with the log.
func TestLogHasNoTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	one, other := openLog(t, path, options(1)), openLog(t, path, options(2))
	joinLog(t, one)
	joinLog(t, other)
	s := begin(t, one, 0)
	for _, seen := range []int64{0, sharedlog.Everything} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := other.Begin(ctx, seen)
		cancel()
		if !errors.Is(err, sharedlog.ErrNoTime) || !errors.Is(err, fsx.ErrLockTimeout) || !strings.HasPrefix(err.Error(), path) {
			t.Errorf("from %d: %v", seen, err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		if _, err := other.Begin(ctx, seen); !errors.Is(err, sharedlog.ErrNoTime) {
			t.Errorf("from %d with a context that has ended: %v", seen, err)
		}
	}
	s.Rollback()
	joinLog(t, other)
}

// Another program that holds the database is waited for as long as the context says.
func TestLogWaitsForAnotherProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	l := openLog(t, path, options(1))
	joinLog(t, l)
	f, err := openFile(path, DurableProcess)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	if err := f.begin(wait{ctx: t.Context(), most: time.Minute}); err != nil {
		t.Fatal(err)
	}
	for _, seen := range []int64{0, sharedlog.Everything} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if _, err := l.Begin(ctx, seen); !errors.Is(err, sharedlog.ErrNoTime) {
			t.Errorf("from %d: %v", seen, err)
		}
		cancel()
	}
	f.rollback()
	commit(t, l, begin(t, l, 0), use(1))
}

func TestLogClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	l := openLog(t, path, options(1))
	if _, err := l.Begin(t.Context(), 0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("begun before the file was opened: %v", err)
	}
	joinLog(t, l)
	for range 2 {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, seen := range []int64{0, sharedlog.Everything} {
		if _, err := l.Begin(t.Context(), seen); !errors.Is(err, os.ErrClosed) {
			t.Errorf("begun from %d: %v", seen, err)
		}
	}
	if _, err := l.Read(t.Context(), 0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("read: %v", err)
	}
	if left, err := filepath.Glob(path + ".*.life"); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// The longest minute of all counts, and news tell it now and then.
func TestLogSpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "s.db")
		one := openLog(t, path, options(1))
		joinLog(t, one)
		long := openLog(t, path, options(2, func(o *Options) { o.Span = int64(time.Hour) }))
		joinLog(t, long)
		if s := begin(t, one, sharedlog.Everything); s.News().Span != int64(time.Hour) {
			t.Errorf("the span is %v", time.Duration(s.News().Span))
		} else {
			s.Rollback()
		}
		var spans []int64
		for range 3 {
			s := begin(t, one, 0)
			spans = append(spans, s.News().Span)
			s.Rollback()
			time.Sleep(factsEvery * 2 / 3)
		}
		if !slices.Equal(spans, []int64{int64(time.Hour), 0, int64(time.Hour)}) {
			t.Errorf("the spans are %v", spans)
		}
	})
}

// The machine's times are of its present start, unless others use those of another.
func TestLogBoot(t *testing.T) {
	at := func(boot string, ahead int64) func(*Options) {
		return func(o *Options) { o.Machine = clock.Machine{Boot: boot, Ahead: ahead} }
	}
	path := filepath.Join(t.TempDir(), "s.db")
	first := openLog(t, path, options(1, at("first", 100)))
	e := use(1)
	e.Mono = 50
	commit(t, first, begin(t, first, sharedlog.Everything), e)
	beside := openLog(t, path, options(2, at("container", 100)))
	joinLog(t, beside)
	if beside.Clock() != (clock.Machine{}) || first.Clock().Boot != "first" {
		t.Errorf("beside each other they count by %+v and %+v", first.Clock(), beside.Clock())
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	after := openLog(t, path, options(3, at("second", 1<<50)))
	s := begin(t, after, sharedlog.Everything)
	wantOwner(t, after, 1, sharedlog.Alive) // by the wall clock its lease still holds
	s.Rollback()
	if image := joinLog(t, after); image.Events[0].Mono != 0 || after.Clock().Boot != "second" {
		t.Errorf("after a start of the machine the event is %+v, the clock %+v", image.Events[0], after.Clock())
	}
	if image := joinLog(t, after); image.Events[0].Mono != 0 {
		t.Errorf("in the file the event is %+v", image.Events[0])
	}
}
