// Serve shows an OpenAI-compatible gateway for three tenants, one of which floods it.
//
//	go run -C examples/serve .
//
// Each tenant has a quota by package httplimit, and the gateway one at the provider by llmhttp.
// What all have seen is compared at the end: the other two tenants lose nothing. With -redis URL
// two processes are the gateway. What you would copy is gateway.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/demo"
	"github.com/redis/go-redis/v9/logging"
)

var errInterrupted = errors.New("interrupted")

// minLength is the shortest run in which the tenant that floods uses its quota up.
const minLength = 5 * time.Second

// config holds the flags.
type config struct {
	redis  string        // URL; empty for one gateway that counts alone
	length time.Duration // of the run
}

func main() {
	logging.Disable() // go-redis writes each failed connection to standard error
	if len(os.Args) > 1 && os.Args[1] == gatewayArg {
		os.Exit(gatewayStatus())
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
	fmt.Fprintln(os.Stderr, "serve:", err)
	if errors.Is(err, errInterrupted) {
		return 130
	}
	return 1
}

// parseFlags reads the command line and writes its errors to errOut.
func parseFlags(args []string, errOut io.Writer) (config, error) {
	var cfg config
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.StringVar(&cfg.redis, "redis", "", "`URL` of a Redis or Valkey server that two processes share, redis://user:password@host:6379/0 (default: one process)")
	flags.DurationVar(&cfg.length, "for", 20*time.Second, "`duration` of the run")
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
		fmt.Fprintln(errOut, "serve:", err)
		return config{}, err
	}
	return cfg, nil
}
