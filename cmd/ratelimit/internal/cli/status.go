package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/cmd/ratelimit/internal/status"
	"dappco.re/go/core/go-ratelimit/cmd/ratelimit/internal/terminal"
)

// watchEvery is how often --watch looks.
const watchEvery = time.Second

// statusFlags is how a status is shown.
type statusFlags struct {
	shared sharedState
	json   bool
	watch  bool
}

func newStatus() *cobra.Command {
	var flags statusFlags
	c := &cobra.Command{
		Use:   "status [MODEL]",
		Short: "Show what is used of the quota, and by which process",
		Long: `status shows, for each model or for one, and for each pool: what is used of each limit,
what is left of it and when there is room again, the calls that are open and those
that wait in line, cooldowns and spend; and for each process that shares the quota
its open calls and its waiters, and when it was last heard.

It only reads, from the file of the machine or from Redis, also while no proxy and no
other program runs. It has no part in the quota, so it changes nobody's decisions. Of
Redis it needs the rights +@read, +@connection and +time.

With --json it prints one object: "at", the moment; "models" and "pools", each with its
limits; "processes"; and "warnings", texts for people. With --watch one a line.

It ends with 1 where the quota cannot be read, or no quota holds for the model; the quota "*"
holds for each.`,
		Example: `  ratelimit status
  ratelimit status gpt-4o --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("status: want one model at most, got %d", len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return flags.run(c, append(args, "")[0])
		},
	}
	flags.shared.addFlags(c.Flags())
	c.Flags().BoolVar(&flags.json, "json", false, "print JSON")
	c.Flags().BoolVar(&flags.watch, "watch", false, "show it anew each second, until Ctrl-C")
	return c
}

func (f *statusFlags) run(c *cobra.Command, model string) error {
	ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return f.shared.read(ctx, ratelimit.Config{}, func(cfg ratelimit.Config) error {
		out := c.OutOrStdout()
		tick, shown := time.Tick(watchEvery), false
		for {
			report, err := status.Read(ctx, cfg, model)
			if ctx.Err() != nil && f.watch {
				return nil
			}
			if err == nil {
				err, shown = f.show(out, report), true
			} else if shown { // it may be back the next time
				fmt.Fprintf(c.ErrOrStderr(), "ratelimit: %v\n", err)
				err = nil
			}
			if err != nil || !f.watch {
				return err
			}
			select {
			case <-tick:
			case <-ctx.Done():
				return nil
			}
		}
	})
}

// show prints a report, in place of the one before on a terminal.
func (f *statusFlags) show(out io.Writer, r *status.Report) error {
	const clear = "\x1b[H\x1b[2J"
	switch {
	case f.json:
		to := json.NewEncoder(out)
		if !f.watch {
			to.SetIndent("", "  ")
		}
		return to.Encode(r)
	case f.watch && terminal.Shows(out):
		fmt.Fprint(out, clear)
	}
	err := r.Write(out)
	if err == nil && f.watch && !terminal.Shows(out) {
		_, err = fmt.Fprintln(out)
	}
	return err
}
