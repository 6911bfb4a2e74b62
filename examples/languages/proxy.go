package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// proxy is "ratelimit proxy" as it runs.
type proxy struct {
	ctx    context.Context // of the run
	url    string
	cmd    *exec.Cmd
	said   *strings.Builder // whole once the proxy has ended
	read   chan struct{}    // closed then
	killed bool             // and not asked to end
}

// startProxy starts the proxy on a free port, and waits until it serves.
func startProxy(ctx context.Context, program, upstream, db string) (*proxy, error) {
	p := &proxy{ctx: ctx, said: &strings.Builder{}, read: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, program, "proxy", "--upstream", upstream, "--rpm", strconv.Itoa(quota.MaxRPM),
		"--in-flight", strconv.Itoa(quota.MaxInFlight), "--max-wait", patience.String(), "--db", db,
		"--listen", "127.0.0.1:0", "--admin", "", "--log-level", "warn")
	p.cmd.Cancel = p.end
	p.cmd.WaitDelay = 10 * time.Second
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the proxy: %w", err)
	}
	// Its first line is "ratelimit: http://127.0.0.1:8787 -> URL".
	lines := bufio.NewReader(stderr)
	line, err := lines.ReadString('\n')
	go func() {
		defer close(p.read)
		io.Copy(p.said, lines) //nolint:errcheck // to its end
	}()
	p.url, _, _ = strings.Cut(strings.TrimPrefix(line, "ratelimit: "), " ")
	if err != nil || !strings.HasPrefix(p.url, "http://") {
		return nil, errors.Join(fmt.Errorf("the proxy does not start: %s", line), p.stop())
	}
	return p, nil
}

// end asks the proxy to end.
func (p *proxy) end() error {
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.killed = true // Windows has no signals
		return p.cmd.Process.Kill()
	}
	return nil
}

// stop ends the proxy, which first answers what is open. How it ends in a run that is interrupted
// does not matter: then it gets several signals.
func (p *proxy) stop() error {
	if p.ctx.Err() == nil {
		if err := p.end(); err != nil {
			return err
		}
	}
	<-p.read
	if err := p.cmd.Wait(); err != nil && p.ctx.Err() == nil && !p.killed {
		return fmt.Errorf("the proxy: %w: %s", err, p.said)
	}
	return nil
}
