package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/cmd/ratelimit/internal/quotas"
	"dappco.re/go/core/go-ratelimit/money"
)

// quotaSetFlags are the limits that are set.
type quotaSetFlags struct {
	shared  sharedState
	numbers []int
	amounts []string
	burst   time.Duration
	zone    string
}

func newQuotaSet() *cobra.Command {
	f := quotaSetFlags{numbers: make([]int, len(quotas.Limits)), amounts: make([]string, len(quotas.Budgets))}
	c := &cobra.Command{
		Use:   "set MODEL",
		Short: "Set limits of a model",
		Long: `set sets limits of a model, or of a pattern such as gpt-4o* or *, for all programs that share the
quota. Limits without a flag stay as they are; 0 takes a limit away. It prints what held before,
so nothing is lost that cannot be set again, and it does not ask.

It ends with 0, with 1 where the quota cannot be written, or with 2 for flags that cannot be.`,
		Example: `  ratelimit quota set gpt-4o --rpm 500 --tpm 30000
  ratelimit quota set '*' --in-flight 4 --max-cost-per-day 5`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return usagef("quota set: want one model, got %q", args)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args[0]) },
	}
	flags := c.Flags()
	flags.SortFlags = false
	for i, l := range quotas.Limits {
		flags.IntVar(&f.numbers[i], l.Flag, 0, "`limit` of "+l.Words)
	}
	for i, b := range quotas.Budgets {
		flags.StringVar(&f.amounts[i], b.Flag, "", "`dollars` per "+strings.TrimPrefix(b.Words, "/"))
	}
	flags.DurationVar(&f.burst, "burst", 0, "how much of a minute may start at once, such as 10s; then calls\nstart evenly")
	flags.StringVar(&f.zone, "day-zone", "", "`zone` at whose midnight a day ends, such as America/Los_Angeles")
	f.shared.addFlags(flags)
	return c
}

func (f *quotaSetFlags) run(c *cobra.Command, model string) error {
	sets, err := f.sets(c)
	if err != nil {
		return err
	}
	var before, after ratelimit.ModelQuota
	had := false
	err = f.shared.change(c.Context(), c.ErrOrStderr(), func(limiter *ratelimit.RateLimiter) {
		before, had = limiter.Quotas[model]
		after = before
		for _, set := range sets {
			set(&after)
		}
		limiter.SetQuota(model, after)
	})
	if err != nil {
		return err
	}
	was := "there was none"
	if had {
		was = "it was " + quotas.Text(before)
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s: %s; %s\n", model, quotas.Text(after), was)
	return err
}

// sets returns what the flags set.
func (f *quotaSetFlags) sets(c *cobra.Command) (sets []func(*ratelimit.ModelQuota), err error) {
	said := c.Flags().Changed
	for i, l := range quotas.Limits {
		if n := f.numbers[i]; said(l.Flag) {
			if n < 0 {
				return nil, usagef("--%s: must not be negative", l.Flag)
			}
			sets = append(sets, func(q *ratelimit.ModelQuota) { *l.Of(q) = n })
		}
	}
	for i, b := range quotas.Budgets {
		if said(b.Flag) {
			var amount money.Amount
			if err := amount.UnmarshalText([]byte("$" + strings.TrimPrefix(f.amounts[i], "$"))); err != nil || amount < 0 {
				return nil, usagef("--%s %s: want dollars, such as 5 or 12.50", b.Flag, f.amounts[i])
			}
			sets = append(sets, func(q *ratelimit.ModelQuota) { *b.Of(q) = amount })
		}
	}
	if said("burst") {
		if f.burst < 0 {
			return nil, usagef("--burst: must not be negative")
		}
		sets = append(sets, func(q *ratelimit.ModelQuota) { q.Burst = f.burst })
	}
	if said("day-zone") {
		if _, err := time.LoadLocation(f.zone); err != nil {
			return nil, usagef("--day-zone: %w", err)
		}
		sets = append(sets, func(q *ratelimit.ModelQuota) { q.DayZone = f.zone })
	}
	if len(sets) == 0 {
		return nil, usagef("quota set: which limit? For instance --rpm 500")
	}
	return sets, nil
}
