// Figures measures what docs/performance.md and README.md say about speed:
//
//	go run ./internal/test/figures > figures.txt
//
// It runs each benchmark five times, one after another, and prints the least and the most of each
// metric. It wants a machine that has nothing else to do, redis-server, and an hour and a half.
package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// section is a section of docs/performance.md with its benchmarks.
type section struct {
	name string
	runs []run
}

// run is what go test is called with, in a folder of the repository.
type run struct {
	folder, bench, times string
	tests                bool // what is measured is a test in its long form
}

var sections = []section{
	{"Every call, beside x/time/rate", []run{
		{"internal/bench", "CanSend|Decide|Stats|RecordUsage|Reserve|Models|TwoGoroutines", "150x", false},
		{".", "LongestCall", "1x", false},
	}},
	{"In use", []run{{"internal/bench", "Use", "3x", false}}},
	{"Keyed", []run{
		{"internal/bench", "Keyed$|KeyedMap|Handler$", "50x", false},
		{"internal/bench", "KeyedMemory", "1x", false},
	}},
	{"Adaptive", []run{{"internal/bench", "AdaptiveRatio", "150x", false}}},
	{"The algorithms", []run{{"internal/bench", "LimitRatio", "150x", false}}},
	{"Fair shares", []run{{".", "Pools|FairShares", "300x", false}}},
	{"Files", []run{{".", "Persist|Load|AllStats", "5x", false}}},
	{"Autosave", []run{{"internal/bench", "AutoPersist", "60x", false}}},
	{"Shared", []run{{"internal/bench", "Shared", "40x", false}}},
	{"The classics on Redis", []run{{"redislimit/internal/bench", ".", "60x", false}}},
	{"Many machines", []run{
		{"redisstore/internal/bench", "One", "100x", false},
		{"redisstore/internal/bench", "Crowd", "2x", false},
	}},
	{"Many machines, at length", []run{{"redisstore/internal/bench", "Processes|LargeLog", "", true}}},
	{"Under an SDK", []run{{"internal/bench", "Transport", "150x", false}}},
	{"Watching", []run{
		{"internal/bench", "Events", "150x", false},
		{"promratelimit", ".", "0.5s", false},
		{"otelratelimit", ".", "0.5s", false},
		{".", "LogEvents", "0.5s", false},
		{"debugpage", ".", "20x", false},
	}},
}

func main() {
	rounds := flag.Int("runs", 5, "how often each benchmark runs")
	only := flag.String("only", "", "a pattern: the sections to measure")
	flag.Parse()
	pattern, err := regexp.Compile(*only)
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		err = measure(ctx, os.Stdout, pattern, *rounds)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, to io.Writer, only *regexp.Regexp, rounds int) error {
	for _, s := range sections {
		if !only.MatchString(s.name) {
			continue
		}
		begun := time.Now()
		var all figures
		for range rounds {
			for _, r := range s.runs {
				out, err := r.output(ctx)
				if err != nil {
					return fmt.Errorf("%s: %w\n%s", s.name, err, out)
				}
				all.read(out)
			}
		}
		fmt.Fprintf(to, "## %s (%d runs, %v)\n%s\n", s.name, rounds, time.Since(begun).Round(time.Second), &all)
	}
	return nil
}

// output is what a run prints.
func (r run) output(ctx context.Context) ([]byte, error) {
	arguments := []string{"test", "-count=1", "-timeout=2h", "-run", "^$", "-bench", r.bench, "-benchtime", r.times, "."}
	if r.tests {
		arguments = []string{"test", "-count=1", "-timeout=2h", "-v", "-run", r.bench, "."}
	}
	cmd := exec.CommandContext(ctx, "go", arguments...)
	cmd.Dir = filepath.FromSlash(r.folder)
	if r.tests {
		cmd.Env = append(os.Environ(), "RATELIMIT_LONG=1")
	}
	return cmd.CombinedOutput()
}

// figures are metrics in the order in which they came first, and what tests have logged.
type figures struct {
	names       []string
	least, most map[string]float64
	logged      []string
}

var (
	benchmark = regexp.MustCompile(`^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.*)$`)
	logged    = regexp.MustCompile(`^\s+\w+_test\.go:\d+: (.*)$`)
)

// read reads what go test has printed.
func (f *figures) read(out []byte) {
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		if m := benchmark.FindStringSubmatch(lines.Text()); m != nil {
			fields := strings.Fields(m[2])
			for i := 0; i+1 < len(fields); i += 2 {
				if v, err := strconv.ParseFloat(fields[i], 64); err == nil {
					f.add(m[1]+" "+fields[i+1], v)
				}
			}
		} else if m := logged.FindStringSubmatch(lines.Text()); m != nil {
			f.logged = append(f.logged, m[1])
		}
	}
}

func (f *figures) add(name string, v float64) {
	if f.least == nil {
		f.least, f.most = make(map[string]float64), make(map[string]float64)
	}
	if _, ok := f.least[name]; !ok {
		f.names = append(f.names, name)
		f.least[name], f.most[name] = v, v
	}
	f.least[name], f.most[name] = min(f.least[name], v), max(f.most[name], v)
}

// String has a line for each metric: the benchmark, the unit, the least and the most.
func (f *figures) String() string {
	var b strings.Builder
	for _, name := range f.names {
		fmt.Fprintf(&b, "%-70s %12.4g %12.4g\n", name, f.least[name], f.most[name])
	}
	for _, line := range f.logged {
		fmt.Fprintln(&b, line)
	}
	return b.String()
}
