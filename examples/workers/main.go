// Workers is a program in which four processes share one quota, and one of them
// is killed in the middle of a call.
//
//	go run ./examples/workers
//
// It starts itself four times on one SQLite database, which allows 30 requests and
// 40,000 tokens a minute, and 3 calls at once. The workers have nothing else in
// common: no server, and nobody who tells them whose turn it is. Each calls
// Acquire, which waits for room and writes the charge into the database, makes a
// call, which here is a pause of a second or two, and calls Commit with what was
// really used: about half of the estimate. A line tells of each admission.
//
// What to expect: with four workers and three slots, calls go out as fast as slots
// come free. After six seconds a worker is killed (SIGKILL) while it holds a slot.
// A moment later the others use that slot; its request stays counted, for the
// provider may have counted it; and three seconds later the worker is started
// again. After a quarter of a minute 30 requests are used up, and everybody waits
// until the first of them is a minute old. Then the next ones go out, exactly as
// the old ones leave the minute. Estimates alone would admit only 20 calls, of
// 2,000 tokens each: it is Commit that makes room for the others.
//
// After 75 seconds a table says who was admitted how often. What it says of the
// fullest minute does not come from the limiter. The parent process, which makes
// no calls, has noted when each call was admitted, as the workers told it through
// a pipe, and looks at each minute that ends with an admission. It ends with status
// 1 if one of them holds more than the quota, or if a worker failed.
//
// Try also -workers 20 -slots 8 -rpm 200 -tpm 0, or, with -db, two of these at the
// same time on one file, which then share the quota, too.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

var errInterrupted = errors.New("interrupted")

// config is what the flags say.
type config struct {
	db      string // empty for a new one that is removed
	workers int
	rpm     int
	tpm     int
	slots   int
	call    time.Duration // how long a call takes, more or less
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
	cfg, err := parseFlags(args, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program the hard way

	err = run(ctx, cfg, os.Stdout)
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "workers:", err)
	if errors.Is(err, errInterrupted) {
		return 130
	}
	return 1
}

// parseFlags reads the command line. What is wrong with it is written to errOut.
func parseFlags(args []string, errOut io.Writer) (config, error) {
	var cfg config
	flags := flag.NewFlagSet("workers", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.StringVar(&cfg.db, "db", "", "database `file` that the workers share (default: a new one, removed at the end)")
	flags.IntVar(&cfg.workers, "workers", 4, "processes that work at the same time")
	flags.IntVar(&cfg.rpm, "rpm", 30, "requests per minute")
	flags.IntVar(&cfg.tpm, "tpm", 40_000, "tokens per minute, 0 for no limit")
	flags.IntVar(&cfg.slots, "slots", 3, "calls at once, 0 for no limit")
	flags.DurationVar(&cfg.call, "call", 1500*time.Millisecond, "how long a call takes, more or less")
	flags.DurationVar(&cfg.length, "for", 75*time.Second, "how long the workers work")
	flags.DurationVar(&cfg.kill, "kill", 6*time.Second, "when one of them is killed, 0 for never")
	flags.DurationVar(&cfg.away, "away", 3*time.Second, "how long after that it is started again")
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

// run has the workers work, shows how it goes, and checks what they did.
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
