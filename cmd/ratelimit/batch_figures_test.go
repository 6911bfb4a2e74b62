//go:build unix

package main_test

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
)

// The memory for ten million lines, of which OUT has a part.
func TestFigureTenMillionLines(t *testing.T) {
	measured(t)
	const lines, done, sent = 10_000_000, 1_000_000, 3000
	u := provider(t, nil)
	dir := t.TempDir()
	put(t, dir, "in.jsonl", chatLine("id-0"))
	if r := runBatch(t, dir, "", "in.jsonl", "-o", "out.jsonl", "--upstream", u.URL, "--rpm", "100000"); r.status != 0 {
		t.Fatal(r.stderr)
	}
	in, err := os.Create(filepath.Join(dir, "in.jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	zip, err := gzip.NewWriterLevel(in, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	for i := range lines {
		fmt.Fprint(zip, chatLine(fmt.Sprintf("id-%d", i))) //nolint:errcheck // the run fails without it
		if i == 0 || i < lines-1 {
			zip.Write([]byte("\n")) //nolint:errcheck // as above
		}
	}
	zip.Close()
	in.Close()
	file, err := os.OpenFile(filepath.Join(dir, "out.jsonl"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewWriter(file)
	for i := range done - 1 {
		fmt.Fprintf(out, `{"id":"batch_req_%d","custom_id":"id-%d","response":{"status_code":200,"request_id":"","body":%s},"error":null}`+"\n", i+2, i+1, answers)
	}
	out.Flush() //nolint:errcheck // as above
	file.Close()
	began := time.Now()
	cmd, said := startBatch(t, dir, "in.jsonl.gz", "-o", "out.jsonl", "--upstream", u.URL, "--rpm", "1000000", "--limit", fmt.Sprint(sent))
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	most := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
	t.Logf("%d lines, %d done before, %d sent in %v: %.0f MB\n%s", lines, done, sent, time.Since(began), float64(most)/1000, said)
	if most > 200_000 || len(u.requests()) != sent+1 {
		t.Errorf("%d kB, %d calls", most, len(u.requests()))
	}
}

// Two processes on one quota, each with its own file, against a strict provider: nothing is
// refused, and from the second minute on nearly all of the quota is used.
func TestFigureBatches(t *testing.T) {
	measured(t)
	const rpm, lines = 2000, 10_000
	s := newStrict(t, fakeprovider.Limits{fakeprovider.RPM: rpm}, func(c *fakeprovider.Call) fakeprovider.Answer {
		a := fakeprovider.DefaultAnswer(c)
		a.Delay, a.Spread = 200*time.Millisecond, time.Second
		return a
	})
	dirs := []string{t.TempDir(), t.TempDir()}
	db := filepath.Join(t.TempDir(), "q.db")
	ended := make(chan string, len(dirs))
	for _, dir := range dirs {
		put(t, dir, "in.jsonl", chatLines(lines/len(dirs)))
		cmd, said := startBatch(t, dir, "in.jsonl", "-o", "out.jsonl", "--upstream", s.url, "--db", db, "--rpm", fmt.Sprint(rpm), "--progress", "json")
		go func() {
			cmd.Wait() //nolint:errcheck // its status is looked at
			ended <- fmt.Sprintf("status %d", cmd.ProcessState.ExitCode())
			t.Logf("%s", said.String()[max(0, len(said.String())-600):])
		}()
	}
	for range dirs {
		if got := <-ended; got != "status 0" {
			t.Error(got)
		}
	}
	arrivals := s.Arrivals("gpt-4o")
	first, last := arrivals[0].Time, arrivals[len(arrivals)-1].Time
	refused := s.Stats("gpt-4o").Refused
	// Each minute begins with all of its calls, so the last ones come whole minutes later.
	used := float64(lines/rpm-1) / last.Sub(first).Minutes()
	t.Logf("%d calls in %v, %d refused; %.1f%% of the quota from the second minute on", len(arrivals), last.Sub(first), refused, 100*used)
	if refused > 0 || used < 0.99 || len(arrivals) != lines {
		t.Error("not as promised")
	}
}
