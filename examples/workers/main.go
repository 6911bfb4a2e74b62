// Workers shows four processes that share one quota, one of which is killed in a call.
//
//	go run ./examples/workers
//	go run ./examples/workers batch
//
// They share one SQLite file and nothing else. The charge of the killed one stays, and its slot
// goes to the others. With batch two processes send 2,000 prompts, and each is killed once.
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
)

var errInterrupted = errors.New("interrupted")

// config holds the flags.
type config struct {
	db      string // empty for a new one that is removed
	workers int
	rpm     int
	tpm     int
	slots   int
	call    time.Duration // duration of a call, roughly
	length  time.Duration // of the run
	kill    time.Duration // when a worker is killed; 0 for never
	away    time.Duration // until it is started again
}

func main() { os.Exit(status(os.Args[1:])) }

// status runs the program, or a worker of it, and returns its exit status: 130
// after Ctrl-C, as shells expect it.
func status(args []string) int {
	if len(args) > 0 && args[0] == workerArg {
		return workerStatus(args[1:])
	}
	start, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	err = demo.Run(start)
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "workers:", err)
	if errors.Is(err, errInterrupted) {
		return 130
	}
	return 1
}

// parse returns what the command line asks for.
func parse(args []string) (start func(context.Context, io.Writer) error, err error) {
	if len(args) > 0 && args[0] == batchArg {
		cfg, err := parseBatchFlags(args[1:], os.Stderr)
		return func(ctx context.Context, out io.Writer) error { return runBatch(ctx, cfg, out) }, err
	}
	cfg, err := parseFlags(args, os.Stderr)
	return func(ctx context.Context, out io.Writer) error { return run(ctx, cfg, out) }, err
}

// parseFlags reads the command line and writes its errors to errOut.
func parseFlags(args []string, errOut io.Writer) (config, error) {
	var cfg config
	flags := flag.NewFlagSet("workers", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.StringVar(&cfg.db, "db", "", "database `file` that the workers share (default: a new one, removed at the end)")
	flags.IntVar(&cfg.workers, "workers", 4, "processes that work concurrently")
	flags.IntVar(&cfg.rpm, "rpm", 30, "requests per minute")
	flags.IntVar(&cfg.tpm, "tpm", 40_000, "tokens per minute, 0 for no limit")
	flags.IntVar(&cfg.slots, "slots", 3, "concurrent calls, 0 for no limit")
	flags.DurationVar(&cfg.call, "call", 1500*time.Millisecond, "`duration` of a call, roughly")
	flags.DurationVar(&cfg.length, "for", 75*time.Second, "`duration` of the run")
	flags.DurationVar(&cfg.kill, "kill", 6*time.Second, "`time` after which one of them is killed, 0 for never")
	flags.DurationVar(&cfg.away, "away", 3*time.Second, "`time` after that until it is started again")
	if err := flags.Parse(args); err != nil {
		return config{}, err
	}
	if err := cfg.check(flags.Args()); err != nil {
		fmt.Fprintln(errOut, "workers:", err)
		return config{}, err
	}
	return cfg, nil
}

func (cfg *config) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case cfg.workers < 1 || cfg.rpm < 1:
		return errors.New("-workers and -rpm must be at least 1")
	case cfg.tpm < 0 || cfg.slots < 0:
		return errors.New("-tpm and -slots must not be negative")
	case cfg.tpm > 0 && cfg.tpm < promptEstimate+outputEstimate:
		return fmt.Errorf("-tpm must be at least %d, which is one call", promptEstimate+outputEstimate)
	case cfg.call <= 0 || cfg.length <= 0:
		return errors.New("-call and -for must be more than 0")
	case cfg.kill < 0 || cfg.away < 0:
		return errors.New("-kill and -away must not be negative")
	}
	return nil
}

// run starts the workers, shows the progress, and checks their calls against the quota.
func run(ctx context.Context, cfg config, out io.Writer) (err error) {
	if cfg.db == "" {
		folder, err := os.MkdirTemp("", "workers")
		if err != nil {
			return fmt.Errorf("make a folder: %w", err)
		}
		defer os.RemoveAll(folder)
		cfg.db = filepath.Join(folder, "quota.db")
	}
	s, err := openSession(cfg, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return s.work(ctx)
}
