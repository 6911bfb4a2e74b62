// Agents shows twenty agents that share one quota without a single refused call.
//
//	go run ./examples/agents
//
// A strict server on this machine allows 200 requests and 60,000 tokens a minute. The agents send
// it 309 prompts by Acquire and Commit; a run that Ctrl-C ended goes on inside the quota. With
// -unsafe they check before and record after, and are refused. -h lists the other flags.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"dappco.re/go/core/go-ratelimit/internal/demo"
)

var errInterrupted = errors.New("interrupted")

// config holds the flags and the environment.
type config struct {
	in      string // the batch file; empty for the embedded one
	baseURL string // the endpoint; empty for the built-in server
	key     string
	model   string // empty for that of the batch file
	db      string
	rpm     int
	tpm     int
	workers int
	unsafe  bool
	page    string // address of the page; empty for none
	live    bool   // the output is a terminal
}

func main() { os.Exit(status()) }

// status runs the program and returns its exit status: 130 after Ctrl-C, as
// shells expect it.
func status() int {
	cfg, err := parseFlags(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	cfg.key = os.Getenv("OPENAI_API_KEY")
	cfg.live = demo.IsTerminal(os.Stdout)
	err = demo.Run(func(ctx context.Context, out io.Writer) error { return run(ctx, cfg, out) })
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "agents:", err)
	if errors.Is(err, errInterrupted) {
		return 130
	}
	return 1
}

// parseFlags reads the command line and writes its errors to errOut.
func parseFlags(args []string, errOut io.Writer) (config, error) {
	var cfg config
	flags := flag.NewFlagSet("agents", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.StringVar(&cfg.in, "in", "", "batch `file` in OpenAI's format (default: the embedded prompts.jsonl)")
	flags.StringVar(&cfg.baseURL, "base-url", "", "OpenAI-compatible endpoint, such as http://127.0.0.1:11434/v1;\nits key is taken from OPENAI_API_KEY (default: the built-in server)")
	flags.StringVar(&cfg.model, "model", "", "model to use in place of the one in the batch file")
	flags.StringVar(&cfg.db, "db", "", "`file` that keeps the usage (default: go-ratelimit/agents.db in the user's cache folder)")
	flags.IntVar(&cfg.rpm, "rpm", 200, "requests per minute, 0 for no limit")
	flags.IntVar(&cfg.tpm, "tpm", 60_000, "tokens per minute, 0 for no limit")
	flags.IntVar(&cfg.workers, "workers", 20, "agents that work concurrently")
	flags.BoolVar(&cfg.unsafe, "unsafe", false, "check the quota before a call and record the call after it, instead of\nboth in one step, to see why that fails")
	flags.StringVar(&cfg.page, "page", "", "`address`, such as :8089, of a page that shows what the limiter does")
	if err := flags.Parse(args); err != nil {
		return config{}, err
	}
	if err := cfg.complete(flags.Args()); err != nil {
		fmt.Fprintln(errOut, "agents:", err)
		return config{}, err
	}
	return cfg, nil
}

// complete checks the flags and fills in the database's default place.
func (cfg *config) complete(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case cfg.rpm < 0 || cfg.tpm < 0:
		return errors.New("-rpm and -tpm must not be negative")
	case cfg.workers < 1:
		return errors.New("-workers must be at least 1")
	case cfg.db != "":
		return nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return fmt.Errorf("no cache folder, set -db: %w", err)
	}
	cfg.db = filepath.Join(cache, "go-ratelimit", "agents.db")
	return nil
}

// run sends the remaining prompts, shows the progress, and saves the usage however it
// ends. With -page it returns only after the end of ctx.
func run(ctx context.Context, cfg config, out io.Writer) error {
	s, err := openSession(cfg)
	if err != nil {
		return err
	}
	s.introduce(out)
	s.page.introduce(out)
	err = s.work(ctx, out)
	s.page.stay(ctx, out)
	return errors.Join(err, s.close())
}
