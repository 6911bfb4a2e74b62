package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/cmd/ratelimit/internal/child"
	"dappco.re/go/core/go-ratelimit/cmd/ratelimit/internal/proxy"
	"dappco.re/go/core/go-ratelimit/cmd/ratelimit/internal/room"
)

// waitFlags say which call waits, and for how long.
type waitFlags struct {
	quota  quotaFlags
	shared sharedState

	call room.Call
}

const waitHelp = `
The quotas are those that a proxy, another program or "ratelimit quota set" has said of the
shared state. --config, --profile, --rpm and the like say others, for all who share it. A model
without a quota does not wait, and a warning says so.

Nothing is printed while it waits. --timeout 0s does not wait at all. A day or a month whose
money is spent is not waited for.`

const waitStatuses = `    2  a flag says what cannot be
    3  no wait helps: the call is larger than the quota
    4  the money of the day or the month is spent
   75  there is no room before the timeout`

func (f *waitFlags) addFlags(flags *pflag.FlagSet, charges bool) {
	flags.SortFlags = false
	flags.IntVar(&f.call.PromptTokens, "tokens", 0, "`tokens` of the prompt")
	if charges {
		flags.IntVar(&f.call.OutputTokens, "output", 0, "`tokens` of the answer, at the most")
	}
	flags.DurationVar(&f.call.Timeout, "timeout", 0, "longest `time` to wait, such as 30s (default for ever)")
	flags.StringVar(&f.call.Class, "class", "", "`name` of the call's class, such as interactive or batch")
	flags.StringVar(&f.call.Flow, "flow", "", "`name` of the tenant: those of a class take turns")
	f.quota.addLimits(flags)
	f.shared.addFlags(flags)
}

func newWait() *cobra.Command {
	var f waitFlags
	c := &cobra.Command{
		Use:   "wait MODEL",
		Short: "Wait until the shared quota has room for a call",
		Long: `wait waits in line until a call of the model would fit the shared quota. It charges nothing,
and keeps the room for nobody: "ratelimit run" does.
` + waitHelp + `

It ends with 0 once there is room, with 1 where the quota cannot be used, with 128 and its
number after a signal, or with

` + waitStatuses,
		Example: `  ratelimit wait gpt-4o --tokens 2000
  ratelimit wait gpt-4o --rpm 30 --timeout 1m && echo there is room`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("wait: want one model, got %d arguments", len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			f.call.Model, f.call.Bounded = args[0], c.Flags().Changed("timeout")
			return f.runWait(c.Context(), c.ErrOrStderr())
		},
	}
	f.addFlags(c.Flags(), false)
	return c
}

func (f *waitFlags) runWait(ctx context.Context, stderr io.Writer) error {
	signals := child.Catch()
	defer signals.Stop()
	limiter, closeAll, err := f.open(ctx, stderr)
	if err != nil {
		return err
	}
	err = signals.Wait(ctx, func(ctx context.Context) error {
		_, err := f.call.Wait(ctx, limiter, false)
		return err
	})
	closeAll() //nolint:errcheck // nothing was charged
	return f.statusOf(err)
}

// check refuses flags that cannot be.
func (f *waitFlags) check() error {
	switch {
	case f.call.Model == "":
		return usagef("the model is empty")
	case f.call.PromptTokens < 0 || f.call.OutputTokens < 0:
		return usagef("--tokens and --output: must not be negative")
	case f.call.Timeout < 0:
		return usagef("--timeout: must not be negative")
	}
	return nil
}

// open opens the shared quota, with what the flags say of it. closeAll returns the error of what
// was not written.
func (f *waitFlags) open(ctx context.Context, stderr io.Writer) (limiter *ratelimit.RateLimiter, closeAll func() error, err error) {
	if err = f.check(); err != nil {
		return nil, nil, err
	}
	warn := func(err error) { fmt.Fprintf(stderr, "ratelimit: warning: %v\n", err) }
	file, err := readConfig(f.quota.config)
	if err != nil {
		return nil, nil, err
	}
	cfg := file.Config
	if f.quota.joins() {
		cfg = ratelimit.Config{Providers: []ratelimit.Provider{}, MatchVersions: true}
		if f.quota.strict {
			cfg.Unknown = ratelimit.UnknownDeny
		}
	} else if cfg, err = f.quota.configOf(cfg, file.named(), false, slog.New(slog.DiscardHandler)); err != nil {
		return nil, nil, err
	} else {
		cfg.Classes = file.Classes // those that others have said hold
	}
	cfg.OnError = func(err error) {
		if unknown := (*ratelimit.UnknownModelError)(nil); !errors.As(err, &unknown) {
			warn(err)
		}
	}
	limiter, closeAll, err = f.shared.open(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	if err = f.checkClass(limiter); err != nil {
		closeAll() //nolint:errcheck // nothing was charged
		return nil, nil, err
	}
	if _, _, known := limiter.QuotaFor(f.call.Model); !known && len(limiter.PoolsOf(f.call.Model)) == 0 && !f.quota.strict {
		warn(fmt.Errorf("no quota limits the model %q: nothing is waited for (ratelimit quota set, or --rpm)", f.call.Model))
	}
	return limiter, closeAll, nil
}

// named returns the upstreams of a file by their names alone, by which the proxy names models; one
// without a name where there are none.
func (c *fileConfig) named() (all []*proxy.Upstream) {
	for _, name := range slices.Sorted(maps.Keys(c.Upstreams)) {
		all = append(all, &proxy.Upstream{Name: name})
	}
	if len(all) == 0 {
		all = append(all, &proxy.Upstream{})
	}
	return all
}

// checkClass refuses a class that nobody has named. A shared quota without classes gets the
// usual ones.
func (f *waitFlags) checkClass(limiter *ratelimit.RateLimiter) error {
	if f.call.Class == "" {
		return nil
	}
	classes := limiter.Classes()
	if len(classes) == 0 {
		limiter.SetClasses(defaultClasses)
		classes = defaultClasses
	}
	if _, is := classes[f.call.Class]; !is {
		return usagef("--class %s: no such class; there are %s", f.call.Class, strings.Join(slices.Sorted(maps.Keys(classes)), ", "))
	}
	return nil
}

// statusOf gives an error of a wait its status, and says it in the words of the flags.
func (f *waitFlags) statusOf(err error) error {
	ended, limit := (*child.Ended)(nil), (*ratelimit.LimitError)(nil)
	if errors.As(err, &limit) {
		said := fmt.Sprintf("no room for %q: %s", f.call.Model, limit.Decision.Reason)
		if cause := limit.Decision.Cause; cause != "" {
			said += fmt.Sprintf(" (%s)", cause)
		}
		if room := limit.Decision.RetryAfter; room > 0 {
			said += fmt.Sprintf("; there is in %v", room.Round(time.Millisecond))
		}
		err = saidError{said, err}
	}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &ended):
		return statusError{status: ended.Status()}
	case errors.Is(err, ratelimit.ErrNeverFits):
		return statusError{exitNever, err}
	case errors.Is(err, ratelimit.ErrBudget):
		return statusError{exitBudget, err}
	case errors.Is(err, context.DeadlineExceeded) && limit == nil:
		return statusError{exitTimeout, fmt.Errorf("no room for %q in %v", f.call.Model, f.call.Timeout)}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, ratelimit.ErrQueueFull):
		return statusError{exitTimeout, err}
	}
	return err
}

// saidError is an error in other words.
type saidError struct {
	said string
	error
}

func (e saidError) Error() string { return e.said }

func (e saidError) Unwrap() error { return e.error }
