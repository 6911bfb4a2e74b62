package redisstore

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// testServer returns a server in this process, and a client of it.
func testServer(t *testing.T) (*miniredis.Miniredis, *redis.Client) {
	t.Helper()
	server := miniredis.NewMiniRedis()
	t.Cleanup(server.Close)
	client := redis.NewClient(&redis.Options{ // no bubble has a resolver, which the mode would ask
		Addr: "127.0.0.1:1", ContextTimeoutEnabled: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		Dialer:                   func(context.Context, string, string) (net.Conn, error) { return server.Dial() },
	})
	t.Cleanup(func() { client.Close() })
	return server, client
}

func testStore(t *testing.T, client redis.UniversalClient, options Options) *Store {
	t.Helper()
	options.Prefix = "test"
	if options.Timeout == 0 {
		options.Timeout = 30 * time.Second // the machine may be busy
	}
	s, err := New(t.Context(), client, options)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// joined returns a log of a store that has read everything, and what that was.
func joined(t *testing.T, s *Store, process int64) (*Log, *sharedlog.Image) {
	t.Helper()
	remote, err := s.OpenLog(t.Context(), sharedlog.Options{Process: process, LeaseTTL: 10 * time.Second, Span: int64(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	l := remote.(*Log)
	t.Cleanup(func() { l.Close() })
	step, err := l.Begin(t.Context(), sharedlog.Everything)
	if err != nil {
		t.Fatal(err)
	}
	step.Rollback()
	return l, step.News().Image
}

// commit writes a batch, and returns the places and the news.
func commit(t *testing.T, l *Log, seen int64, b *sharedlog.Batch) (first int64, news sharedlog.News) {
	t.Helper()
	step := begin(t, l, seen)
	first, err := step.Commit(b)
	if err != nil {
		t.Fatalf("commit behind %d: %v", seen, err)
	}
	return first, step.News()
}

// begin begins a step of a log that has heard of all events up to a place. It tells none behind it.
func begin(t *testing.T, l *Log, seen int64) *optimistic {
	t.Helper()
	if at := l.heard.position().seq; at < seen {
		if _, err := l.look(t.Context(), at, false); err != nil {
			t.Fatal(err)
		}
	}
	step, err := l.Begin(t.Context(), seen)
	if err != nil {
		t.Fatal(err)
	}
	s := step.(*optimistic)
	s.base, s.news = seen, sharedlog.News{} // whatever was heard since
	return s
}

func batchOf(events ...*sharedlog.Event) *sharedlog.Batch {
	return &sharedlog.Batch{Events: events, Wall: time.Now().UnixNano()}
}

func use(process, n int64) *sharedlog.Event {
	return &sharedlog.Event{Process: process, N: n, Kind: sharedlog.Use, Model: "m", Wall: time.Now().UnixNano(), Requests: 1}
}

// everythingOf returns what a new process reads.
func everythingOf(t *testing.T, s *Store) *sharedlog.Image {
	t.Helper()
	l, img := joined(t, s, rand.Int64N(1<<40)+1000)
	l.Close()
	return img
}

// Days of batches that were written behind others go on from those, as DayAdded.After says. Go and
// the script agree for all numbers of an int64.
func TestAppendedDays(t *testing.T) {
	_, client := testServer(t)
	s := testStore(t, client, Options{})
	a, _ := joined(t, s, 1)
	b, _ := joined(t, s, 2)
	numbers := []int64{0, 1, 17, 999_999_999, 1_000_000_000, 1<<53 - 1, 1 << 53, 1<<53 + 1, math.MaxInt64 - 1, math.MaxInt64}
	number := func() int64 { return numbers[rand.IntN(len(numbers))] }
	const day = int64(24 * time.Hour)
	began := time.Now().UnixNano()
	starts := []int64{0, began, began + 1, began + day - 1, began + day, began + day - int64(time.Hour), began + day - int64(time.Hour) + 1}
	start := func() int64 { return starts[rand.IntN(len(starts))] }
	seen := int64(0)
	for n := int64(1); n < 400; n++ {
		told := use(1, n)
		told.Day, told.HasDay = state.DayUsage{Start: start(), Count: number(), Tokens: number()}, true
		late, other := use(2, 2*n), use(2, 2*n+1)
		late.Day, late.HasDay = state.DayUsage{Start: start(), Count: number(), Tokens: number()}, true
		other.Model, other.Day, other.HasDay = "other", state.DayUsage{Start: 5, Count: n}, true
		sign := 1 - 2*rand.IntN(2)
		added := sharedlog.DayAdded{Requests: sign * int(number()), Tokens: sign * int(number())}
		commit(t, a, seen, batchOf(told))
		batch := batchOf(late, other)
		batch.Appends, batch.Added = true, []sharedlog.DayAdded{added, {Requests: 1}}
		first, news := commit(t, b, seen, batch)
		if first != seen+2 || len(news.Events) != 3 || news.Events[0].N != n {
			t.Fatalf("at %d with the news %+v", first, news.Events)
		}
		want := added.After(told.Day, late.Day)
		if got := news.Events[1].Day; got != want {
			t.Fatalf("%+v after %+v with %+v is %+v, want %+v", late.Day, told.Day, added, got, want)
		}
		if got := news.Events[2].Day; got != other.Day {
			t.Fatalf("the day of the other model is %+v", got)
		}
		seen += 3
		if n%50 != 0 {
			continue
		}
		if img := everythingOf(t, s); img.Days["m"] != want || img.Days["other"] != other.Day {
			t.Fatalf("the days are %+v", img.Days)
		}
	}
}

// An event that does more to days than to add to them makes an appended batch conflict.
func TestAppendedBehindWhatChangesDays(t *testing.T) {
	_, client := testServer(t)
	s := testStore(t, client, Options{})
	a, _ := joined(t, s, 1)
	b, _ := joined(t, s, 2)
	for i, kind := range []sharedlog.Kind{sharedlog.Reset, sharedlog.Quota, sharedlog.Day} {
		seen := int64(2 * i)
		commit(t, a, seen, batchOf(&sharedlog.Event{Process: 1, N: int64(i) + 1, Kind: kind, Model: "m", Text: "{}"}))
		batch := batchOf(use(2, int64(i)+1))
		batch.Appends, batch.Added = true, make([]sharedlog.DayAdded, 1)
		step := begin(t, b, seen)
		if _, err := step.Commit(batch); !errors.Is(err, sharedlog.ErrConflict) || len(step.News().Events) != 1 {
			t.Errorf("behind kind %d: %v, news %+v", kind, err, step.News().Events)
		}
		if first, err := step.Commit(batch); first != seen+2 || err != nil {
			t.Errorf("behind kind %d: the next one gets %d, %v", kind, first, err)
		}
	}
}

// A batch whose reply is lost is written once, and answered as the first time. One that comes after
// a later one is not written.
func TestBatchesThatComeTwice(t *testing.T) {
	_, client := testServer(t)
	s := testStore(t, client, Options{})
	a, _ := joined(t, s, 1)
	b, _ := joined(t, s, 2)
	seen := int64(0)
	for n, appends := range []bool{false, true, false, true} {
		if appends {
			commit(t, b, seen, batchOf(use(2, int64(n))))
		}
		batch := batchOf(use(1, int64(2*n)), use(1, int64(2*n)+1))
		batch.Appends, batch.Added = appends, make([]sharedlog.DayAdded, 2)
		first, news := commit(t, a, seen, batch)
		for range 2 {
			a.number-- // as if it was sent again
			again, same := commit(t, a, seen, batch)
			if again != first || len(same.Events) != len(news.Events) || *same.Events[0] != *news.Events[0] {
				t.Errorf("batch %d is answered at %d with %+v, then at %d with %+v", n, first, news.Events, again, same.Events)
			}
		}
		seen = first + 1
	}
	a.number -= 2
	step := begin(t, a, 0)
	if _, err := step.Commit(batchOf(use(1, 99))); !errors.Is(err, errStale) {
		t.Errorf("an old batch: %v", err)
	}
	if n := len(everythingOf(t, s).Events); n != 10 {
		t.Errorf("there are %d events, want 10", n)
	}
}

// The log's time does not follow a clock that jumps, as that of another replica may.
func TestServerClockJumps(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour, 20 * time.Second, -20 * time.Second, 500 * time.Millisecond, -30 * time.Millisecond} {
		server, client := testServer(t)
		server.SetTime(time.Now().Add(-3 * time.Hour)) // which alone is no fault
		s := testStore(t, client, Options{})
		l, _ := joined(t, s, 1)
		commit(t, l, 0, batchOf(use(1, 1)))
		server.SetTime(time.Now().Add(-3*time.Hour + jump))
		for n := int64(1); n < 4; n++ {
			_, news := commit(t, l, n, batchOf(use(1, n+1)))
			off := time.Duration(news.Events[0].Wall-time.Now().UnixNano()) + 3*time.Hour
			if off.Abs() > time.Second {
				t.Errorf("after a jump by %v an event is dated %v off", jump, off)
			}
		}
		if off := l.Skew() + 3*time.Hour; off.Abs() > time.Second {
			t.Errorf("after a jump by %v the skew is off by %v", jump, off)
		}
		// A process that comes later goes by the same time.
		later, img := joined(t, s, 2)
		if off := later.Skew() - l.Skew(); off.Abs() > 100*time.Millisecond || len(img.Events) != 4 {
			t.Errorf("after a jump by %v another process is off by %v, with %d events", jump, off, len(img.Events))
		}
		for i := range img.Events[1:] {
			if img.Events[i].Wall > img.Events[i+1].Wall+int64(time.Millisecond) {
				t.Errorf("after a jump by %v time goes back", jump)
			}
		}
	}
}

// A server that has lost writes is another log for those who have seen them, also when others have
// written as much since.
func TestLostWrites(t *testing.T) {
	for _, since := range []int64{0, 1, 2, 3} {
		server, client := testServer(t)
		s := testStore(t, client, Options{})
		a, before := joined(t, s, 1)
		commit(t, a, 0, batchOf(use(1, 1)))
		meta, _ := server.HKeys(s.keys[keyMeta])
		days := make(map[string]string)
		for _, f := range meta {
			days[f] = server.HGet(s.keys[keyMeta], f)
		}
		commit(t, a, 1, batchOf(use(1, 2)))
		commit(t, a, 2, batchOf(use(1, 3)))
		entries, _ := client.XRange(t.Context(), s.keys[keyLog], "2", "+").Result()
		for _, e := range entries {
			client.XDel(t.Context(), s.keys[keyLog], e.ID)
		}
		for f, v := range days {
			server.HSet(s.keys[keyMeta], f, v)
		}
		if since > 0 {
			// miniredis keeps the last ID; a replica would not have it
			client.Do(t.Context(), "XSETID", s.keys[keyLog], "1-99999999999999999")
			b, _ := joined(t, s, 2)
			for n := range since {
				if _, err := begin(t, b, n+1).Commit(batchOf(use(2, n+1))); err != nil {
					t.Skip("the server in this process refuses the place")
				}
			}
		}
		if _, err := begin(t, a, 3).Commit(batchOf(use(1, 4))); !errors.Is(err, errReplaced) {
			t.Errorf("with %d events since: %v", since, err)
		}
		if step, err := a.Begin(t.Context(), 3); err == nil {
			t.Errorf("with %d events since a step goes on: %+v", since, step)
		}
		step, err := a.Begin(t.Context(), sharedlog.Everything)
		if err != nil {
			t.Fatal(err)
		}
		if img := step.News().Image; img.Identity == before.Identity || int64(len(img.Events)) != 1+since {
			t.Errorf("with %d events since: %+v", since, img)
		}
	}
}

// A write in the common case, which looks at three keys, finds each of them missing.
func TestLossInTheCommonCase(t *testing.T) {
	for _, key := range []int{keyLog, keyMeta, keyDays} {
		server, client := testServer(t)
		s := testStore(t, client, Options{})
		a, _ := joined(t, s, 1)
		day := func(n int64) *sharedlog.Batch {
			e := use(1, n)
			e.Day, e.HasDay = state.DayUsage{Start: 1, Count: n}, true
			return batchOf(e)
		}
		for n := range int64(3) {
			commit(t, a, n, day(n+1))
		}
		if a.factsAt(a.heard.position(), false) == nil {
			t.Fatal("the case is not the common one")
		}
		server.Del(s.keys[key])
		if _, err := begin(t, a, 3).Commit(day(4)); !errors.Is(err, errReplaced) {
			t.Errorf("without %s: %v", s.keys[key], err)
		}
	}
}

// The keys are few, in one slot, and all of them end.
func TestKeys(t *testing.T) {
	server, client := testServer(t)
	s := testStore(t, client, Options{})
	a, _ := joined(t, s, 1)
	commit(t, a, 0, batchOf(use(1, 1), &sharedlog.Event{Process: 1, N: 2, Kind: sharedlog.Reset}, use(1, 3)))
	keys := server.Keys()
	if want := slices.Sorted(slices.Values(s.keys)); !slices.Equal(keys, want) {
		t.Errorf("the keys are %q, want %q", keys, want)
	}
	for _, key := range keys {
		if ttl := server.TTL(key); ttl <= 6*24*time.Hour || ttl > 7*24*time.Hour {
			t.Errorf("%s ends in %v", key, ttl)
		}
	}
}

// A log that is not used keeps its keys, and its lease.
func TestCloseEndsAtOnce(t *testing.T) {
	_, client := testServer(t)
	s := testStore(t, client, Options{})
	l, _ := joined(t, s, 1)
	began := time.Now()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("it takes %v", took)
	}
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("the client is closed: %v", err)
	}
}

// A limiter that has not read events which are deleted is told everything by its next step.
func TestStepAfterMissingEvents(t *testing.T) {
	_, client := testServer(t)
	s := testStore(t, client, Options{})
	a, img := joined(t, s, 1)
	b, _ := joined(t, s, 2)
	commit(t, a, 0, batchOf(use(1, 1), use(1, 2)))
	dropping := batchOf(use(1, 3))
	dropping.Drops = [][2]int64{{1, 2}}
	commit(t, a, 2, dropping)
	a.doChores(t.Context())
	b.heard.reset(img.Identity, 0, 0) // as if it had heard of nothing since
	b.offline.Store(true)
	if news, err := b.Read(t.Context(), 0); !errors.Is(err, sharedlog.ErrIncomplete) {
		t.Fatalf("it reads %+v, %v", news, err)
	}
	step, err := b.Begin(t.Context(), 0)
	if err != nil || step.News().Image == nil || len(step.News().Image.Events) != 1 {
		t.Fatalf("its next step is told %+v, %v", step, err)
	}
	step.Rollback()
	if step, err = b.Begin(t.Context(), 3); err != nil || step.News().Image != nil {
		t.Errorf("the step after that is told %+v, %v", step, err)
	}
}

// A long batch, as it is written after an outage, is in one piece, and its days follow each other,
// whatever others have written.
func TestLongBatches(t *testing.T) {
	_, client := testServer(t)
	s := testStore(t, client, Options{})
	a, _ := joined(t, s, 1)
	b, _ := joined(t, s, 2)
	day := func(e *sharedlog.Event, n int64) *sharedlog.Event {
		e.Day, e.HasDay = state.DayUsage{Start: 1, Count: n}, true
		return e
	}
	commit(t, a, 0, batchOf(day(use(1, 1), 5)))
	for _, length := range []int64{mostEvents, mostEvents + 1, 3 * mostEvents} {
		last := a.heard.position().seq
		commit(t, a, last, batchOf(day(use(1, last+1), 5)))
		batch := &sharedlog.Batch{Wall: time.Now().UnixNano(), Appends: true}
		for n := range length {
			batch.Events = append(batch.Events, day(use(2, last+n), 1+n))
			batch.Added = append(batch.Added, sharedlog.DayAdded{Requests: 1})
		}
		step := begin(t, b, last)
		first, err := step.Commit(batch)
		told := step.News().Events
		if errors.Is(err, sharedlog.ErrConflict) { // then it is planned anew
			if len(told) != 1 {
				t.Fatalf("%d events: the news are %+v", length, told)
			}
			for n, e := range batch.Events {
				day(e, 6+int64(n))
			}
			first, err = step.Commit(batch)
			told = append(told, step.News().Events...)
		}
		if err != nil || first != last+2 || len(told) != int(length)+1 {
			t.Fatalf("%d events: at %d with %d news, %v", length, first, len(told), err)
		}
		for i, e := range told[1:] {
			if e.Seq != first+int64(i) || e.Day.Count != 6+int64(i) {
				t.Fatalf("%d events: event %d has the place %d and the day %+v", length, i, e.Seq, e.Day)
			}
		}
		if _, err := a.look(t.Context(), a.heard.position().seq, false); err != nil {
			t.Fatal(err)
		}
	}
}
