// Helpers of many test files: the end of a run, limiters, how long a test may be.

package ratelimit_test

import (
	"flag"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
	"dappco.re/go/core/go-ratelimit/money"
)

func TestMain(m *testing.M) {
	// Tests that run in parallel wait for processes, locks and files more than they compute.
	flag.Parse()
	asked := false // for another number, or to fuzz, where it is that of the processes
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" || f.Name == "test.fuzz" })
	if !asked {
		flag.Set("test.parallel", strconv.Itoa(3*runtime.GOMAXPROCS(0)))
	}
	statefile.RealTemp()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // of limiters without OnError
	log.SetOutput(os.Stderr)
	removeHome := setHome()
	status := m.Run()
	removeHome()
	removeExamples()
	os.Exit(status)
}

// setHome has limiters without a FilePath make their folder elsewhere than in the user's home.
func setHome() (remove func()) {
	if os.Getenv("CORE_HOME") != "" { // the parent process has set it
		return func() {}
	}
	home := filepath.Join(os.TempDir(), fmt.Sprintf("ratelimit-home-%d", os.Getpid()))
	os.Setenv("CORE_HOME", home)
	return func() { os.RemoveAll(home) }
}

// tempDir is a folder for the state files of one example.
func tempDir() string {
	dir, err := os.MkdirTemp(examplesDir(), "")
	if err != nil {
		log.Fatal(err)
	}
	return dir
}

// examplesDir makes the folder that TestMain removes. It is made on demand: the child processes
// of tests run no example, and one that is killed or exits removes nothing.
var examplesDir = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "ratelimit")
	if err != nil {
		log.Fatal(err)
	}
	removeExamples = func() { os.RemoveAll(dir) }
	return dir
})

var removeExamples = func() {}

const sharedHandOver = limitertest.HandOver

var (
	backends       = limitertest.Backends()
	needSQLite     = limitertest.NeedSQLite
	newLimiter     = limitertest.Of
	newLimiterWith = limitertest.With
	jsonOf         = limitertest.JSON
	overStore      = limitertest.OverStore
	reserve        = limitertest.Reserve

	// How long tests are.
	times     = racetest.Times
	manySeeds = racetest.Seeds
)

// overFakes runs a test for each of many seeds beside each other, each in a bubble and over a
// log in memory of its own, of which idle limiters seldom ask: some of these tests last for months.
func overFakes(t *testing.T, seeds int, run func(t *testing.T, seed int, fake *fakestore.Fake)) {
	t.Parallel()
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				fake := fakestore.New()
				fake.Contact = time.Hour
				run(t, seed, fake)
			})
		})
	}
}

func addSum(s *ratelimit.AuditSum, input, output int, amount money.Amount) {
	s.Calls++
	s.InputTokens += input
	s.OutputTokens += output
	s.Money = s.Money.Add(amount)
}

func subSum(s *ratelimit.AuditSum, input, output int, amount money.Amount) {
	s.Calls--
	s.InputTokens -= input
	s.OutputTokens -= output
	s.Money = s.Money.Sub(amount)
}

// line is calls that wait, and the order in which they were served.
type line struct {
	*testing.T
	rl    *ratelimit.RateLimiter
	mu    sync.Mutex
	order []string
	kept  []*ratelimit.Reservation
	wg    sync.WaitGroup
}

func newLine(t *testing.T, cfg ratelimit.Config) *line {
	return &line{T: t, rl: newLimiterWith(t, cfg)}
}

// comes has a call wait, under a name.
func (l *line) comes(name string, req ratelimit.Request) {
	l.wg.Go(func() {
		rs, err := l.rl.AcquireAll(l.Context(), req)
		if err != nil {
			l.Errorf("%s: %v", name, err)
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.order = append(l.order, name)
		l.kept = append(l.kept, rs...)
	})
	synctest.Wait()
}

func (l *line) served() string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.order, " ")
}

func (l *line) expect(want string) {
	l.Helper()
	if got := l.served(); got != want {
		l.Errorf("served %q, want %q", got, want)
	}
}

// cancel gives everything back that was served last.
func (l *line) cancelLast() {
	l.mu.Lock()
	r := l.kept[len(l.kept)-1]
	l.kept = l.kept[:len(l.kept)-1]
	l.mu.Unlock()
	r.Cancel()
}
