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

// batchArg is the first argument for the batch instead of the workers that pause.
const batchArg = "batch"

// batchConfig holds the flags of the batch.
type batchConfig struct {
	db       string // empty for a new one that is removed
	prompts  int
	workers  int
	rpm, tpm int
	kill     time.Duration // when the first process is killed, and the next ones each as much later
	away     time.Duration // until it is started again
}

// parseBatchFlags reads the command line and writes its errors to errOut.
func parseBatchFlags(args []string, errOut io.Writer) (batchConfig, error) {
	var cfg batchConfig
	flags := flag.NewFlagSet("workers batch", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.StringVar(&cfg.db, "db", "", "database `file` that the processes share (default: a new one, removed at the end)")
	flags.IntVar(&cfg.prompts, "prompts", 2000, "prompts of the batch")
	flags.IntVar(&cfg.workers, "workers", 2, "processes that share it")
	flags.IntVar(&cfg.rpm, "rpm", 1200, "requests per minute")
	flags.IntVar(&cfg.tpm, "tpm", 300_000, "tokens per minute, 0 for no limit")
	flags.DurationVar(&cfg.kill, "kill", 1500*time.Millisecond, "`time` after which the first is killed, the second after twice that, and so on")
	flags.DurationVar(&cfg.away, "away", time.Second, "`time` after that until it is started again")
	if err := flags.Parse(args); err != nil {
		return batchConfig{}, err
	}
	var err error
	switch {
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case cfg.prompts < 1 || cfg.workers < 1 || cfg.rpm < 1:
		err = errors.New("-prompts, -workers and -rpm must be at least 1")
	case cfg.tpm < 0 || cfg.kill <= 0 || cfg.away < 0:
		err = errors.New("-tpm and -away must not be negative, and -kill must be more than 0")
	}
	if err != nil {
		fmt.Fprintln(errOut, "workers:", err)
	}
	return cfg, err
}

// batch is one run of the batch, in the process that starts the others. Only one goroutine uses
// it, but for what the live line shows.
type batch struct {
	cfg     batchConfig
	limiter *ratelimit.RateLimiter // sets the quota, and makes no calls
	server  *fakeprovider.Host
	crew    *crew
	started time.Time
	screen  *demo.Progress
	tally   *batchTally

	ending   bool
	failures []error
}

// runBatch runs the batch, and compares what the processes told with the server's log.
func runBatch(ctx context.Context, cfg batchConfig, out io.Writer) (err error) {
	if cfg.db == "" {
		folder, err := os.MkdirTemp("", "batch")
		if err != nil {
			return fmt.Errorf("make a folder: %w", err)
		}
		defer os.RemoveAll(folder)
		cfg.db = filepath.Join(folder, "quota.db")
	}
	b := &batch{cfg: cfg, tally: newBatchTally()}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.open(); err != nil {
		return err
	}
	b.introduce(out)
	b.started = time.Now()
	b.screen = demo.NewProgress(out, demo.IsTerminal(out), b.line)
	stopShowing := b.screen.Start()
	b.work(ctx)
	stopShowing()
	records, err := b.server.Records()
	err = errors.Join(append(b.failures, err, b.report(out, records))...)
	if ctx.Err() != nil {
		return errors.Join(errInterrupted, err)
	}
	return errors.Join(err, b.forget())
}

func (b *batch) open() (err error) {
	server := fakeprovider.New(fakeprovider.Options{Answer: batchAnswer}, map[string]fakeprovider.Config{
		"": {Limits: fakeprovider.Limits{fakeprovider.RPM: b.cfg.rpm, fakeprovider.TPM: b.cfg.tpm}},
	})
	if b.server, err = fakeprovider.Listen(server, b.cfg.db+".server"); err != nil {
		return err
	}
	b.limiter, err = ratelimit.NewWithSQLiteConfig(b.cfg.db, ratelimit.Config{
		Shared: true,
		Quotas: map[string]ratelimit.ModelQuota{model: {MaxRPM: b.cfg.rpm, MaxTPM: b.cfg.tpm}},
	})
	if err != nil {
		return err
	}
	b.crew, err = newCrew()
	return err
}

// batchAnswer takes a tenth to three tenths of a second.
func batchAnswer(c *fakeprovider.Call) fakeprovider.Answer {
	a := fakeprovider.DefaultAnswer(c)
	a.Delay, a.Spread = 100*time.Millisecond, 200*time.Millisecond
	return a
}

// close is called when the processes have ended.
func (b *batch) close() (err error) {
	if b.crew != nil {
		b.crew.close()
	}
	if b.limiter != nil {
		err = b.limiter.Close()
	}
	return errors.Join(err, b.server.Close())
}

// forget lets the next run begin a batch of its own. The usage of the last minute stays on both
// sides.
func (b *batch) forget() (err error) {
	for worker := 1; worker <= b.cfg.workers; worker++ {
		err = errors.Join(err, removeIfThere(b.job(worker).donePath()))
	}
	return err
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (b *batch) job(worker int) job {
	return job{worker: worker, db: b.cfg.db, url: b.server.URL + "/v1/chat/completions", prompts: b.cfg.prompts, workers: b.cfg.workers}
}

// work has the processes work until each has answers to its share, ctx ends or one fails. Each is
// killed once.
func (b *batch) work(ctx context.Context) {
	kills := make(chan int, b.cfg.workers)
	again := make(chan int, b.cfg.workers)
	for worker := 1; worker <= b.cfg.workers; worker++ {
		b.start(worker)
		timer := time.AfterFunc(time.Duration(worker)*b.cfg.kill, func() { kills <- worker })
		defer timer.Stop()
	}
	interrupted := ctx.Done()
	away := 0
	for {
		if len(b.failures) > 0 && !b.ending {
			b.end()
		}
		if len(b.crew.running) == 0 && (away == 0 || b.ending) {
			b.crew.close()
		}
		select {
		case n, ok := <-b.crew.news:
			if !ok {
				return
			}
			if n.err != nil {
				b.failures = append(b.failures, n.err)
				continue
			}
			b.tally.hear(n.event)
		case p := <-b.crew.exits:
			b.crew.ended(p)
			if p.killed {
				b.tally.lost()
			}
			switch {
			case p.killed && !b.ending:
				away++
				time.AfterFunc(b.cfg.away, func() { again <- p.worker })
			case p.err != nil && !p.killed:
				b.failures = append(b.failures, fmt.Errorf("worker %d: %w", p.worker, p.err))
			}
		case worker := <-kills:
			if b.crew.running[worker] == nil {
				b.screen.Note("worker %d has ended before it was to be killed", worker)
				continue
			}
			b.screen.Note("worker %d is killed", worker)
			if err := b.crew.kill(worker); err != nil {
				b.failures = append(b.failures, err)
			}
		case worker := <-again:
			away--
			if !b.ending {
				b.screen.Note("worker %d is started again", worker)
				b.start(worker)
			}
		case <-interrupted:
			interrupted = nil
			b.end()
		}
	}
}

func (b *batch) start(worker int) {
	if err := b.crew.start(b.job(worker)); err != nil {
		b.failures = append(b.failures, err)
	}
}

func (b *batch) end() {
	b.ending = true
	b.crew.dismiss()
}
