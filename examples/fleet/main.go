// Fleet shows machines that share one quota through Redis; one of them is killed, then Redis is.
//
//	go run -C examples/fleet .
//
// Three processes stand for machines and call a strict provider, whose log is compared with the
// quota at the end. Redis comes back empty. With -redis URL a server of yours is used, which stays
// as it is. What you would copy is machine.go.
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

	"dappco.re/go/core/go-ratelimit/internal/demo"
	"github.com/redis/go-redis/v9/logging"
)

var errInterrupted = errors.New("interrupted")

// config holds the flags, and what the tests change.
type config struct {
	redis  string        // URL; empty for a server of its own
	state  string        // folder that keeps the provider's log
	length time.Duration // of the run
	quota  quota
}

func main() {
	logging.Disable() // go-redis writes each failed connection to standard error
	if len(os.Args) > 1 && os.Args[1] == machineArg {
		os.Exit(machineStatus())
	}
	os.Exit(status(os.Args[1:]))
}

// status runs the program and returns its exit status: 130 after Ctrl-C, as shells expect it.
func status(args []string) int {
	cfg, err := parseFlags(args, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	err = demo.Run(func(ctx context.Context, out io.Writer) error { return run(ctx, cfg, out) })
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "fleet:", err)
	if errors.Is(err, errInterrupted) {
		return 130
	}
	return 1
}

// parseFlags reads the command line and writes its errors to errOut.
func parseFlags(args []string, errOut io.Writer) (config, error) {
	cfg := config{quota: accountQuota}
	flags := flag.NewFlagSet("fleet", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.StringVar(&cfg.redis, "redis", "", "`URL` of a Redis or Valkey server, redis://user:password@host:6379/0 (default: a new server)")
	flags.StringVar(&cfg.state, "state", "", "`folder` that keeps the provider's log (default: in the user's cache folder)")
	flags.DurationVar(&cfg.length, "for", 72*time.Second, "`duration` of the run")
	if err := flags.Parse(args); err != nil {
		return config{}, err
	}
	var err error
	switch {
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case cfg.length < minLength:
		err = fmt.Errorf("-for is %v, want at least %v", cfg.length, minLength)
	}
	if err != nil {
		fmt.Fprintln(errOut, "fleet:", err)
		return config{}, err
	}
	return cfg, nil
}

// run shows a fleet, and returns an error if the provider refused a call or the counts differ.
func run(ctx context.Context, cfg config, out io.Writer) (err error) {
	if cfg.state == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return err
		}
		cfg.state = filepath.Join(cache, "go-ratelimit", "fleet")
	}
	if err := os.MkdirAll(cfg.state, 0o700); err != nil {
		return err
	}
	folder, err := os.MkdirTemp(cfg.state, "run-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	f, err := newFleet(ctx, cfg, folder, out)
	if err != nil {
		return err
	}
	return errors.Join(f.run(ctx), f.close())
}
