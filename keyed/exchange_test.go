package keyed_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/keyed/keyedtest"
)

// pushes keeps what is pushed to an Exchange.
type pushes struct {
	*keyedtest.Exchange
	mu   sync.Mutex
	rows [][]keyed.Row
}

// seen returns the rows of each push so far.
func (e *pushes) seen() [][]keyed.Row {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.rows)
}

func newPushes() *pushes { return &pushes{Exchange: keyedtest.NewExchange()} }

func (e *pushes) Push(ctx context.Context, rows []keyed.Row) error {
	e.mu.Lock()
	e.rows = append(e.rows, slices.Clone(rows))
	e.mu.Unlock()
	return e.Exchange.Push(ctx, rows)
}

func region(t *testing.T, name string, e keyed.Exchange) *keyed.Limiter {
	t.Helper()
	return shared(t, keyed.Options{Exchange: e, Region: name})
}

// foreign pushes what another region has counted.
func foreign(t *testing.T, e keyed.Exchange, r keyed.Request, name string, count int64) {
	t.Helper()
	if err := e.Push(t.Context(), []keyed.Row{{Cell: cellOf(r), Region: name, Count: count}}); err != nil {
		t.Fatal(err)
	}
}

// Two regions know each other's counts within two intervals.
func TestRegionsConverge(t *testing.T) {
	for _, every := range []time.Duration{0, 5 * time.Second} {
		bubble(t, func(t *testing.T) {
			exchange := keyedtest.NewExchange()
			o := keyed.Options{Exchange: exchange, ExchangeEvery: every}
			o.Region = "eu"
			eu := shared(t, o)
			o.Region = "us"
			us := shared(t, o)
			r := perMinute("a", 100)
			takeNow(t, eu, costing(r, 0))
			time.Sleep(cmp.Or(every, time.Second) / 3) // the intervals are not in step
			takeNow(t, us, costing(r, 0))
			if takes(t, eu, costing(r, 10), 3) != 3 || takes(t, us, costing(r, 10), 4) != 4 {
				t.Error("not all passed")
			}
			time.Sleep(2 * cmp.Or(every, time.Second))
			for name, l := range map[string]*keyed.Limiter{"eu": eu, "us": us} {
				if d := takeNow(t, l, costing(r, 0)); d.Remaining != 30 {
					t.Errorf("every %v: %d remain in %s, want 30", every, d.Remaining, name)
				}
			}
			if eu, us := exchange.Count(cellOf(r), "eu"), exchange.Count(cellOf(r), "us"); eu != 30 || us != 40 {
				t.Errorf("eu published %d and us %d, want 30 and 40", eu, us)
			}
		})
	}
}

// The exchange begins with New: the first request sees what other regions have charged, unless the
// first Pull has not ended. Then it is decided by what is known, and the next one sees it.
func TestExchangeBeginsWithNew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		exchange := keyedtest.NewExchange()
		r := perMinute("a", 100)
		foreign(t, exchange, r, "us", 40)
		l := region(t, "eu", exchange)
		synctest.Wait()
		wantCalls(t, exchange, "Pull", 2) // the rows, and no more
		if d := takeNow(t, l, r); d.Remaining != 59 {
			t.Errorf("%d remain after the first request, want 59", d.Remaining)
		}
		exchange.Set(keyedtest.Faults{Delay: 100 * time.Millisecond})
		slow := region(t, "asia", exchange)
		if d := takeNow(t, slow, r); d.Remaining != 99 {
			t.Errorf("%d remain before the first Pull has ended, want 99", d.Remaining)
		}
		time.Sleep(200 * time.Millisecond)
		if d := takeNow(t, slow, r); d.Remaining != 58 {
			t.Errorf("%d remain after the first Pull, want 58", d.Remaining)
		}
	})
}

// Close ends the exchange of a Limiter that had no request, also while its first Pull is under way.
func TestCloseEndsExchangeWithoutRequests(t *testing.T) {
	for name, delay := range map[string]time.Duration{"idle": 0, "in a Pull": time.Second / 2} {
		bubble(t, func(t *testing.T) {
			exchange := keyedtest.NewExchange()
			exchange.Set(keyedtest.Faults{Delay: delay})
			l := region(t, "eu", exchange)
			time.Sleep(100 * time.Millisecond)
			begin := time.Now()
			if err := l.Close(t.Context()); err != nil || time.Since(begin) > 0 {
				t.Errorf("%s: %v after %v", name, err, time.Since(begin))
			}
			pulls := exchange.Calls("Pull")
			time.Sleep(time.Minute)
			wantCalls(t, exchange, "Pull", pulls)
		})
	}
}

// A count is pushed if it grew and a fifth of the limit is used, or another region uses the
// counter.
func TestReasonsToPush(t *testing.T) {
	bubble(t, func(t *testing.T) {
		exchange := newPushes()
		l := region(t, "eu", exchange)
		r := perMinute("a", 97)
		want := func(what string, pushes int, count int64) {
			t.Helper()
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if got := len(exchange.seen()); got != pushes {
				t.Errorf("%s: %d pushes, want %d", what, got, pushes)
			}
			if got := exchange.Count(cellOf(r), "eu"); got != count {
				t.Errorf("%s: the count is %d, want %d", what, got, count)
			}
		}
		takeNow(t, l, costing(r, 19))
		want("less than a fifth", 0, 0)
		takeNow(t, l, r)
		want("a fifth", 1, 20)
		want("no growth", 1, 20)
		hold, _, err := l.Hold(t.Context(), costing(r, 30))
		if err != nil {
			t.Fatal(err)
		}
		want("a hold", 1, 20)
		hold.Commit(5)
		want("a commit", 2, 25)
		foreign(t, exchange, r, "us", 50)
		want("growth of others", 3, 25)
		b := perMinute("b", 1000)
		takeNow(t, l, b)
		want("another counter", 3, 25)
		foreign(t, exchange, b, "us", 1)
		time.Sleep(2 * time.Second)
		if got := exchange.Count(cellOf(b), "eu"); got != 1 {
			t.Errorf("with a count of another region 1 of 1000 is published as %d", got)
		}
	})
}

// What other regions counted is not published again, by whatever way it came.
func TestForeignCountsStayForeign(t *testing.T) {
	bubble(t, func(t *testing.T) {
		exchange := newPushes()
		r := perMinute("a", 100)
		foreign(t, exchange, r, "us", 40)
		foreign(t, exchange, r, "asia", 30)
		l := region(t, "eu", exchange)
		time.Sleep(time.Second)
		if d := takeNow(t, l, costing(r, 5)); d.Remaining != 25 {
			t.Errorf("%d remain, want 25", d.Remaining)
		}
		time.Sleep(2 * time.Second)
		foreign(t, exchange, r, "us", 50)
		foreign(t, exchange, r, "us", 45) // late
		time.Sleep(2 * time.Second)
		if d := takeNow(t, l, costing(r, 0)); d.Remaining != 15 {
			t.Errorf("%d remain, want 15", d.Remaining)
		}
		synctest.Wait()
		for _, rows := range exchange.seen() {
			for _, row := range rows {
				if row.Region == "eu" && row.Count > 5 {
					t.Errorf("pushed %+v", row)
				}
			}
		}
		time.Sleep(55 * time.Second) // in the next cell, the cell before counts with its weight
		if d := takeNow(t, l, costing(r, 0)); d.Remaining != 100-84 {
			t.Errorf("%d remain in the next cell, want 16", d.Remaining)
		}
	})
}

// One's own row that comes back, as after a restart, raises the own count, and not that of others.
// What was taken before it came back is in its count already.
func TestOwnRowComesBack(t *testing.T) {
	for _, tt := range []struct {
		name string
		pull time.Duration // how long the first one takes
		own  int64         // once 30 have come back and 2 were taken
	}{{"before the take", 0, 32}, {"after the take", time.Millisecond, 30}} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				exchange := keyedtest.NewExchange()
				r := perMinute("a", 100)
				first := region(t, "eu", exchange)
				takeNow(t, first, costing(r, 30))
				time.Sleep(time.Second + time.Millisecond) // its exchange has ended
				exchange.Set(keyedtest.Faults{Delay: tt.pull})
				again := region(t, "eu", exchange)
				if tt.pull == 0 {
					synctest.Wait()
				}
				takeNow(t, again, costing(r, 2))
				time.Sleep(time.Second / 2)
				if d := takeNow(t, again, costing(r, 0)); int64(d.Remaining) != 100-tt.own {
					t.Errorf("%d remain, want %d", d.Remaining, 100-tt.own)
				}
				takeNow(t, again, costing(r, 5))
				time.Sleep(2 * time.Second)
				if got := exchange.Count(cellOf(r), "eu"); got != tt.own+5 {
					t.Errorf("published %d, want %d", got, tt.own+5)
				}
				if d := takeNow(t, again, costing(r, 0)); int64(d.Remaining) != 95-tt.own {
					t.Errorf("%d remain, want %d", d.Remaining, 95-tt.own)
				}
			})
		})
	}
}

// Rows are pushed in chunks, in the order of their cells.
func TestChunks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		exchange := newPushes()
		l := region(t, "eu", exchange)
		takeNow(t, l, costing(perMinute("a", 1), 0))
		synctest.Wait()
		for i := range 1200 {
			takeNow(t, l, perMinute(fmt.Sprint(i), 2))
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		var all []keyed.Row
		for _, rows := range exchange.seen() {
			if len(rows) > 500 {
				t.Errorf("%d rows in a push", len(rows))
			}
			all = append(all, rows...)
		}
		if len(all) != 1200 || !slices.IsSortedFunc(all, func(x, y keyed.Row) int { return strings.Compare(x.Key, y.Key) }) {
			t.Errorf("%d rows, or not in order", len(all))
		}
	})
}

// An Exchange that fails, hangs, panics or loses replies delays counts, and nothing else.
func TestFailingExchange(t *testing.T) {
	for name, faults := range map[string]keyedtest.Faults{
		"fails": failing, "hangs": {Hang: true}, "loses replies": {Lose: true}, "panics": {Panic: errors.ErrUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				exchange := keyedtest.NewExchange()
				exchange.Set(faults)
				var mu sync.Mutex
				reported := 0
				l := shared(t, keyed.Options{Exchange: exchange, Region: "eu", OnError: func(error) {
					mu.Lock()
					defer mu.Unlock()
					reported++
				}})
				r := perMinute("a", 100)
				begin := time.Now()
				takes(t, l, r, 50)
				if took := time.Since(begin); took != 0 {
					t.Errorf("took %v", took)
				}
				time.Sleep(10 * time.Second)
				exchange.Set(keyedtest.Faults{})
				foreign(t, exchange, r, "us", 20)
				time.Sleep(4 * time.Second)
				if d := takeNow(t, l, costing(r, 0)); d.Remaining != 30 {
					t.Errorf("%d remain, want 30", d.Remaining)
				}
				if got := exchange.Count(cellOf(r), "eu"); got != 50 {
					t.Errorf("published %d, want 50", got)
				}
				mu.Lock()
				defer mu.Unlock()
				if reported == 0 {
					t.Error("no error was reported")
				}
			})
		})
	}
}

// Close pushes what has grown since the last exchange, and ends the exchanges.
func TestClosePushes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		exchange := keyedtest.NewExchange()
		l := region(t, "eu", exchange)
		r := perMinute("a", 100)
		takeNow(t, l, costing(r, 0))
		synctest.Wait()
		takeNow(t, l, costing(r, 30))
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := exchange.Count(cellOf(r), "eu"); got != 30 {
			t.Errorf("published %d, want 30", got)
		}
		calls := exchange.Calls("Pull")
		time.Sleep(time.Minute)
		wantCalls(t, exchange, "Pull", calls)
	})
}

// With an Origin, what the processes of a region charged together is published, once.
func TestRegionOfProcesses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		exchange := keyedtest.NewExchange()
		origin := keyedtest.NewOrigin()
		r := perMinute("a", 100)
		o := keyed.Options{Origin: origin, Exchange: exchange, Region: "eu"}
		one, two := shared(t, o), shared(t, o)
		us := region(t, "us", exchange)
		takeNow(t, us, costing(r, 0))
		takes(t, one, r, 15)
		time.Sleep(time.Second)
		takes(t, two, r, 15)
		time.Sleep(3 * time.Second)
		if got := exchange.Count(cellOf(r), "eu"); got != 30 {
			t.Errorf("published %d, want 30", got)
		}
		if d := takeNow(t, us, costing(r, 0)); d.Remaining != 70 {
			t.Errorf("%d remain in the other region, want 70", d.Remaining)
		}
		time.Sleep(5 * time.Second)
		if d := takeNow(t, one, costing(r, 0)); d.Remaining != 70 {
			t.Errorf("%d remain, want 70", d.Remaining)
		}
	})
}

// A region at the limit of what it may keep does not keep rows for more counters.
func TestMoreCountersThanKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		exchange := keyedtest.NewExchange()
		var reported error
		l := shared(t, keyed.Options{
			Exchange: exchange, Region: "eu", MaxKeys: 16, OnError: func(err error) { reported = err },
		})
		for i := range 100 {
			foreign(t, exchange, perMinute(fmt.Sprint(i), 5), "us", 4)
		}
		takeNow(t, l, perMinute("a", 5))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if reported == nil || !takeNow(t, l, perMinute("a", 5)).OK {
			t.Errorf("reported %v", reported)
		}
		time.Sleep(4 * time.Minute) // those are forgotten
		r := perMinute("b", 5)
		foreign(t, exchange, r, "us", 4)
		time.Sleep(2 * time.Second)
		if d := takeNow(t, l, costing(r, 0)); d.Remaining != 1 {
			t.Errorf("%d remain, want 1", d.Remaining)
		}
	})
}

// Regions charge, and exchange rows that come late, twice and in any order, with failures: in the
// end all count the sum of what all charged, whatever the schedule.
func TestLawsOfRegions(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) { exchangeAtRandom(t, rand.New(rand.NewPCG(seed, 6))) })
	}
}

// shuffler is an Exchange whose Pulls repeat rows and change their order.
type shuffler struct {
	*keyedtest.Exchange
	random *rand.Rand
	mu     sync.Mutex
	seen   []keyed.Row
}

func (s *shuffler) Pull(ctx context.Context, cursor string) ([]keyed.Row, string, error) {
	rows, next, err := s.Exchange.Pull(ctx, cursor)
	if err != nil || len(rows) == 0 {
		return rows, next, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, rows...)
	for range s.random.IntN(5) {
		rows = append(rows, s.seen[s.random.IntN(len(s.seen))])
	}
	s.random.Shuffle(len(rows), func(i, k int) { rows[i], rows[k] = rows[k], rows[i] })
	return rows, next, nil
}

func exchangeAtRandom(t *testing.T, random *rand.Rand) {
	exchange := keyedtest.NewExchange()
	names := []string{"eu", "us", "asia"}
	requests := []keyed.Request{
		{Namespace: "requests", Key: "a", Limit: 1 << 30, Window: time.Hour},
		{Namespace: "requests", Key: "b", Limit: 40, Window: time.Hour},
		{Namespace: "tokens", Key: "a", Limit: 200, Window: time.Hour},
	}
	var limiters []*keyed.Limiter
	for _, name := range names {
		limiters = append(limiters, region(t, name, &shuffler{Exchange: exchange, random: rand.New(rand.NewPCG(random.Uint64(), 1))}))
	}
	charged := map[keyed.Cell]int64{}
	used := make([]map[keyed.Cell]int, len(limiters))
	for i := range used {
		used[i] = map[keyed.Cell]int{}
	}
	for range 300 {
		i := random.IntN(len(limiters))
		r := costing(requests[random.IntN(len(requests))], random.IntN(10))
		d := takeNow(t, limiters[i], r)
		if d.OK {
			charged[cellOf(r)] += int64(max(r.Cost, 0))
		}
		now := int(r.Limit) - d.Remaining
		if now < used[i][cellOf(r)] {
			t.Fatalf("%s counts %d of %s/%s after %d", names[i], now, r.Namespace, r.Key, used[i][cellOf(r)])
		}
		used[i][cellOf(r)] = now
		exchange.Set(keyedtest.Faults{
			Delay: time.Duration(random.Int64N(int64(300 * time.Millisecond))),
			Lose:  random.IntN(4) == 0,
			Hang:  random.IntN(20) == 0,
		})
		time.Sleep(time.Duration(random.Int64N(int64(500 * time.Millisecond))))
	}
	exchange.Set(keyedtest.Faults{})
	for _, r := range requests { // give each count a reason
		for _, l := range limiters {
			if takeNow(t, l, costing(r, r.Limit/5)).OK {
				charged[cellOf(r)] += int64(r.Limit / 5)
			}
		}
	}
	time.Sleep(5 * time.Second)
	for _, r := range requests {
		for i, l := range limiters {
			d := takeNow(t, l, costing(r, 0))
			if got := int64(r.Limit) - int64(d.Remaining); got != min(charged[cellOf(r)], int64(r.Limit)) {
				t.Errorf("%s counts %d of %s/%s, want %d", names[i], got, r.Namespace, r.Key, charged[cellOf(r)])
			}
		}
	}
}
