package bench

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	_ "modernc.org/sqlite"
)

// sharedSizes are the numbers of live rows in a shared database.
var sharedSizes = []int{100, 1_000, 10_000, 100_000}

func openShared(tb testing.TB, path string) *ratelimit.RateLimiter {
	tb.Helper()
	rl, err := ratelimit.NewWithSQLiteConfig(path, ratelimit.Config{
		Shared: true,
		Quotas: map[string]ratelimit.ModelQuota{model: unbounded},
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := errors.Join(rl.Err(), rl.Close()); err != nil {
			tb.Error(err)
		}
	})
	return rl
}

// sharedWith returns a limiter on a shared database whose window holds n charges of 10 tokens. Many
// goroutines make them, because those that come together share a transaction.
func sharedWith(tb testing.TB, n int) (rl *ratelimit.RateLimiter, path string) {
	tb.Helper()
	path = filepath.Join(tb.TempDir(), "shared.db")
	rl = openShared(tb, path)
	var wg sync.WaitGroup
	var made atomic.Int64
	for range min(n, 500) {
		wg.Go(func() {
			for made.Add(1) <= int64(n) {
				rl.RecordUsage(model, 10, 0)
			}
		})
	}
	wg.Wait()
	if got := rl.Stats(model).RPM; got != n {
		tb.Fatalf("the window holds %d, want %d", got, n)
	}
	return rl, path
}

// rawDatabase opens a database with the settings of the library.
func rawDatabase(tb testing.TB, path string) *sql.DB {
	tb.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(path)+"?"+url.Values{
		"_busy_timeout": {"5000"},
		"_journal_mode": {"WAL"},
		"_pragma":       {"synchronous(NORMAL)"},
	}.Encode())
	if err != nil {
		tb.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	tb.Cleanup(func() { db.Close() })
	return db
}

// bareTransaction returns what any shared limiter has to do at least: to read a total and
// write an event, in one transaction of its own. It has its tables in the same file.
func bareTransaction(tb testing.TB, path string) func() {
	tb.Helper()
	db := rawDatabase(tb, path)
	const tables = `CREATE TABLE bare_totals (model TEXT PRIMARY KEY, requests INTEGER NOT NULL, tokens INTEGER NOT NULL);
		CREATE TABLE bare_events (seq INTEGER PRIMARY KEY, model TEXT NOT NULL, at INTEGER NOT NULL, tokens INTEGER NOT NULL);`
	if _, err := db.Exec(tables); err != nil {
		tb.Fatal(err)
	}
	if _, err := db.Exec(`INSERT INTO bare_totals VALUES (?, 1, 1)`, model); err != nil {
		tb.Fatal(err)
	}
	conn, err := db.Conn(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	prepare := func(query string) *sql.Stmt {
		stmt, err := conn.PrepareContext(context.Background(), query)
		if err != nil {
			tb.Fatal(err)
		}
		return stmt
	}
	begin, commit := prepare(`BEGIN IMMEDIATE`), prepare(`COMMIT`)
	total := prepare(`SELECT requests, tokens FROM bare_totals WHERE model = ?`)
	insert := prepare(`INSERT INTO bare_events (model, at, tokens) VALUES (?, ?, ?)`)
	tb.Cleanup(func() { conn.Close() })
	return func() {
		_, err1 := begin.Exec()
		var requests, tokens int64
		err2 := total.QueryRow(model).Scan(&requests, &tokens)
		_, err3 := insert.Exec(model, time.Now().UnixNano(), 120)
		_, err4 := commit.Exec()
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			tb.Fatal(err)
		}
	}
}

// timings are how long each of many calls took.
type timings []time.Duration

func (t *timings) measure(f func()) {
	start := time.Now()
	f()
	*t = append(*t, time.Since(start))
}

// last returns the last n timings.
func (t timings) last(n int) timings { return t[len(t)-n:] }

// quantile sorts the timings.
func (t timings) quantile(q float64) float64 {
	slices.Sort(t)
	return float64(t[int(q*float64(len(t)-1))])
}

func mallocs() float64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.Mallocs)
}

// BenchmarkSharedReserve compares one call at a shared limiter with the least transaction
// that could do the same, on the same file. They alternate in slices, because whoever
// finds that another connection has written must read some pages again. The ratios are
// medians of those of the slices, each of which sees one weather.
func BenchmarkSharedReserve(b *testing.B) {
	for _, n := range sharedSizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rl, path := sharedWith(b, n)
			bare := bareTransaction(b, path)
			var reserve, commit, least timings
			var reserves, commits []float64 // the ratios
			var allocs float64
			const slice = 50
			pair := func() {
				var r *ratelimit.Reservation
				reserve.measure(func() { r, _ = rl.Reserve(model, 90, 30) })
				if r == nil {
					b.Fatal("denied")
				}
				commit.measure(func() { r.Commit(90, 10) })
			}
			pair()
			bare()
			reserve, commit = nil, nil
			for b.Loop() {
				before := mallocs()
				for range slice {
					pair()
				}
				allocs += mallocs() - before
				for range slice {
					least.measure(bare)
				}
				yard := least.last(slice).quantile(.5)
				reserves = append(reserves, reserve.last(slice).quantile(.5)/yard)
				commits = append(commits, commit.last(slice).quantile(.5)/yard)
			}
			slices.Sort(reserves)
			slices.Sort(commits)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(reserve.quantile(.5), "reserve-ns")
			b.ReportMetric(commit.quantile(.5), "commit-ns")
			b.ReportMetric(least.quantile(.5), "bare-ns")
			b.ReportMetric(reserves[len(reserves)/2], "x-bare")
			b.ReportMetric(commits[len(commits)/2], "commit-x-bare")
			b.ReportMetric(allocs/float64(len(reserve)+len(commit)), "allocs/call")
		})
	}
}

// BenchmarkSharedDecide asks when nothing has changed, and right after another limiter
// has written.
func BenchmarkSharedDecide(b *testing.B) {
	for _, n := range sharedSizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rl, path := sharedWith(b, n)
			other := openShared(b, path)
			var unchanged, changed timings
			decide := func() {
				if d := rl.Decide(model, 100); !d.Allowed {
					b.Fatalf("denied: %+v", d)
				}
			}
			decide()
			for b.Loop() {
				other.RecordUsage(model, 1, 1)
				changed.measure(decide)
				for range 100 {
					unchanged.measure(decide)
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(unchanged.quantile(.5), "unchanged-ns")
			b.ReportMetric(changed.quantile(.5), "changed-ns")
		})
	}
}

// sharedChildEnv has the path of the database of which the test binary is a child process.
const sharedChildEnv = "RATELIMIT_BENCH_CHILD"

// order is what a child is to do, one line of JSON, and answer with the timings of all
// its calls of Reserve.
type order struct {
	Goroutines int
	For        time.Duration
}

// TestSharedChild is no test: it is what the child processes do.
func TestSharedChild(t *testing.T) {
	path := os.Getenv(sharedChildEnv)
	if path == "" {
		t.Skip("only in child processes")
	}
	rl := openShared(t, path)
	orders, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var o order
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if err := answers.Encode(hammer(rl, o)); err != nil {
			t.Fatal(err)
		}
	}
	if err := rl.Close(); err != nil {
		t.Fatal(err)
	}
	os.Exit(0)
}

// hammer reserves and settles as fast as it can.
func hammer(rl *ratelimit.RateLimiter, o order) timings {
	of := make([]timings, o.Goroutines)
	until := time.Now().Add(o.For)
	var wg sync.WaitGroup
	for i := range of {
		wg.Go(func() {
			for time.Now().Before(until) {
				var r *ratelimit.Reservation
				of[i].measure(func() { r, _ = rl.Reserve(model, 90, 30) })
				r.Commit(90, 10)
			}
		})
	}
	wg.Wait()
	return slices.Concat(of...)
}

// child is another process that has the database open.
type child struct {
	in      io.WriteCloser
	answers *json.Decoder
}

func startChild(b *testing.B, path string) *child {
	b.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestSharedChild$")
	cmd.Env = append(os.Environ(), sharedChildEnv+"="+path)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			b.Error(err)
		}
	})
	return &child{in, json.NewDecoder(bufio.NewReader(out))}
}

// together has children hammer at once, and returns the timings of each.
func together(b *testing.B, o order, children ...*child) []timings {
	for _, c := range children {
		if err := json.NewEncoder(c.in).Encode(o); err != nil {
			b.Fatal(err)
		}
	}
	of := make([]timings, len(children))
	for i, c := range children {
		if err := c.answers.Decode(&of[i]); err != nil {
			b.Fatal(err)
		}
		if len(of[i]) == 0 {
			b.Fatal("a process had no turn")
		}
	}
	return of
}

// BenchmarkSharedProcesses lets processes hammer one database: one alone, two with a
// goroutine each, two with four. They alternate in slices of a quarter of a second, which
// is longer than anybody may have to wait.
func BenchmarkSharedProcesses(b *testing.B) {
	const slice = 250 * time.Millisecond
	_, path := sharedWith(b, 100)
	one, two := startChild(b, path), startChild(b, path)
	together(b, order{1, slice / 10}, one, two)

	// crowd is what is known of two that hammer at once.
	type crowd struct {
		goroutines      int
		ratios, smaller []float64
		all             timings
	}
	crowds := []*crowd{{goroutines: 1}, {goroutines: 4}}
	var alone timings
	for b.Loop() {
		single := together(b, order{1, slice}, one)[0]
		alone = append(alone, single...)
		for _, c := range crowds {
			of := together(b, order{c.goroutines, slice}, one, two)
			first, second := float64(len(of[0])), float64(len(of[1]))
			c.ratios = append(c.ratios, (first+second)/float64(len(single)))
			c.smaller = append(c.smaller, min(first, second)/(first+second))
			c.all = slices.Concat(c.all, of[0], of[1])
		}
		one, two = two, one
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(alone.quantile(.5), "alone-p50-ns")
	for _, c := range crowds {
		slices.Sort(c.ratios)
		slices.Sort(c.smaller)
		name := fmt.Sprintf("2x%d-", c.goroutines)
		b.ReportMetric(c.ratios[len(c.ratios)/2], name+"x-alone")
		b.ReportMetric(c.smaller[len(c.smaller)/2], name+"smaller")
		b.ReportMetric(c.all.quantile(.99)/1e6, name+"p99-ms")
		b.ReportMetric(c.all.quantile(1)/1e6, name+"worst-ms")
	}
}
