// Languages shows a Go program, a Python script and a Node script on one quota.
//
//	go run ./examples/languages
//
// The scripts are given the base URL of "ratelimit proxy"; the Go program opens the file in which
// the proxy keeps the quota. A strict server allows 60 requests a minute, and refuses none. It
// takes ten seconds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/demo"
	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
)

const (
	model    = "gpt-4.1"
	workers  = 3 // of each program
	patience = 5 * time.Second
)

var quota = ratelimit.ModelQuota{MaxRPM: 60, MaxInFlight: 4}

func main() {
	program := flag.String("proxy", "", "the `program` ratelimit (default: built from cmd/ratelimit)")
	flag.Parse()
	if err := demo.Run(func(ctx context.Context, out io.Writer) error { return run(ctx, *program, out) }); err != nil {
		fmt.Fprintln(os.Stderr, "languages:", err)
		os.Exit(1)
	}
}

// run starts the server and the proxy, has the three programs work, and compares their counts.
func run(ctx context.Context, program string, out io.Writer) (err error) {
	fmt.Fprintf(out, `A Go program, a Python script and a Node script call one model. The server allows %d requests a
minute, %d at a time, and answers 429 to more. The scripts use "ratelimit proxy" in place of the
server; the Go program uses the library, on the proxy's file. What to look for: the minute is used
up, and there is no 429.

`, quota.MaxRPM, quota.MaxInFlight)
	folder, err := os.MkdirTemp("", "languages-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if program == "" {
		fmt.Fprintln(out, "building the proxy from cmd/ratelimit …")
		if program, err = build(ctx, folder); err != nil {
			return err
		}
	}
	server, err := startServer(filepath.Join(folder, "server.jsonl"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	db := filepath.Join(folder, "quota.db")
	proxy, err := startProxy(ctx, program, server.URL, db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, proxy.stop()) }()
	fmt.Fprintf(out, "ratelimit proxy --upstream %s --rpm %d --in-flight %d  is at %s\n", server.URL, quota.MaxRPM, quota.MaxInFlight, proxy.url)

	began := time.Now()
	stopShowing := demo.NewProgress(out, demo.IsTerminal(out), func() string {
		stats := server.Stats(model)
		return fmt.Sprintf("%3.0fs  %d of %d calls of the minute, %d in flight, %d refused", time.Since(began).Seconds(),
			stats.Requests-stats.Refused, quota.MaxRPM, stats.InFlight, stats.Refused)
	}).Start()
	tallies := together(ctx,
		func() tally { return goProgram(ctx, server.URL, db) },
		func() tally { return script(ctx, "Python", pythonScript, proxy.url, "python3", "-") },
		func() tally { return script(ctx, "Node", nodeScript, proxy.url, "node", "--input-type=module", "-") },
	)
	stopShowing()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return report(out, tallies, server.Stats(model))
}

// startServer starts a server that enforces the quota.
func startServer(journal string) (*fakeprovider.Host, error) {
	return fakeprovider.Listen(fakeprovider.New(fakeprovider.Options{
		Answer: func(c *fakeprovider.Call) fakeprovider.Answer {
			a := fakeprovider.DefaultAnswer(c)
			a.Delay, a.Spread = 200*time.Millisecond, 400*time.Millisecond
			return a
		},
	}, map[string]fakeprovider.Config{model: {
		Limits: fakeprovider.Limits{fakeprovider.RPM: quota.MaxRPM, fakeprovider.InFlight: quota.MaxInFlight},
	}}), journal)
}
