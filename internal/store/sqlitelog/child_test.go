//go:build !nosqlite

package sqlitelog

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/store"
)

// childEnv has path and number of a process that appends until it is killed.
const childEnv = "SQLITELOG_CHILD"

// child appends one entry after the other, and says the number of each when it is written.
func child() {
	path, number, _ := strings.Cut(os.Getenv(childEnv), "|")
	process, _ := strconv.ParseInt(number, 10, 64)
	ctx := context.Background()
	l, err := (&Store{Path: path}).Open(ctx, store.Options{Process: process})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	at := start.At
	fmt.Println(0)
	for n := int64(1); ; n++ {
		news, err := l.Append(ctx, at, []store.Entry{{Process: process, N: n, Command: make([]byte, n%500)}})
		for err == nil {
			if at = news.End(at); !news.More {
				break
			}
			news, err = l.Read(ctx, at, 0, 0)
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(n)
	}
}

// process is a child of the test.
type process struct {
	command *exec.Cmd
	out     *bufio.Reader
}

func startChild(t *testing.T, path string, number int64) *process {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childEnv+"="+path+"|"+strconv.FormatInt(number, 10))
	pipe, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{command: c, out: bufio.NewReader(pipe)}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	if p.read(t) != 0 {
		t.Fatal("the child does not begin")
	}
	return p
}

func (p *process) read(t *testing.T) int64 {
	t.Helper()
	line, err := p.out.ReadString('\n')
	n, parseErr := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	if err != nil || parseErr != nil {
		t.Fatalf("the child says %q, error %v", line, err)
	}
	return n
}

// kill ends the process, and returns the last number that it said.
func (p *process) kill(t *testing.T) (last int64) {
	t.Helper()
	p.command.Process.Kill()
	for {
		line, err := p.out.ReadString('\n')
		if err != nil {
			p.command.Wait()
			return last
		}
		if last, err = strconv.ParseInt(strings.TrimSpace(line), 10, 64); err != nil {
			t.Fatalf("the child says %q", line)
		}
	}
}

// Processes that are killed while they append lose nothing that they have heard to be written, all
// see one order, and the others see each death at once.
func TestKilledProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	l := openLog(t, path, 1, nil)
	begin(t, l)
	acknowledged, rounds := make(map[int64]int64), 6
	if testing.Short() {
		rounds = 2
	}
	for round := range rounds {
		one, two := int64(100+2*round), int64(101+2*round)
		first, second := startChild(t, path, one), startChild(t, path, two)
		for range 20 {
			first.read(t)
			second.read(t)
		}
		if l.Dead(one) || l.Dead(two) {
			t.Error("a process that lives is dead")
		}
		acknowledged[one] = max(first.kill(t), 20)
		began := time.Now()
		for !l.Dead(one) {
			if time.Since(began) > 5*time.Second {
				t.Fatal("nobody sees the death")
			}
		}
		acknowledged[two] = max(second.kill(t), 20)
	}
	last, seq := make(map[int64]int64), start.At.Seq
	for at := start.At; ; {
		news, err := l.Read(t.Context(), at, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range news.Entries {
			if e.N != last[e.Process]+1 || e.At.Seq != seq+1 {
				t.Fatalf("entry %d of process %d comes behind %d, at %d", e.N, e.Process, last[e.Process], e.At.Seq)
			}
			last[e.Process], seq = e.N, e.At.Seq
		}
		if at = news.End(at); !news.More {
			break
		}
	}
	for process, n := range acknowledged {
		if last[process] < n {
			t.Errorf("process %d has heard of %d, the log has %d", process, n, last[process])
		}
	}
	l.sweepLives()
	l.sweepLives()
	if files, _ := filepath.Glob(path + ".*.life"); len(files) < 2 {
		t.Errorf("the dead are forgotten: %v", files)
	}
	l.sweptAt = time.Now().Add(-mournFor)
	l.sweepLives()
	l.sweptAt = time.Now().Add(-mournFor)
	l.sweepLives()
	if files, _ := filepath.Glob(path + ".*.life"); len(files) != 1 {
		t.Errorf("life files stay: %v", files)
	}
}
