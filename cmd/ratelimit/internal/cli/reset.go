package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"dappco.re/go/core/go-ratelimit"
)

// resetFlags say what is forgotten.
type resetFlags struct {
	shared   sharedState
	all, yes bool
}

func newReset() *cobra.Command {
	var f resetFlags
	c := &cobra.Command{
		Use:   "reset MODEL | --all",
		Short: "Forget what a model has used",
		Long: `reset forgets the requests and tokens that a model has used, or all models and pools with --all,
and ends their cooldowns. Those who wait go on at once. Quotas, calls in flight, and money that was
spent stay. The provider forgets nothing: after a reset it may refuse calls.

What is forgotten cannot be had back, so it asks first. Where nobody can be asked it wants --yes.

It ends with 0, with 1 where the quota cannot be written, the model is not known or the answer
was no, or with 2 for arguments that cannot be and without a --yes that is needed.`,
		Example: `  ratelimit reset --all --yes
  ratelimit quota set gpt-4o --rpm 30 && ratelimit reset gpt-4o --yes`,
		Args: func(_ *cobra.Command, args []string) error {
			if (len(args) == 1) == f.all || len(args) > 1 || len(args) == 1 && args[0] == "" {
				return usagef("reset: want one model, or --all")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, append(args, "")[0]) },
	}
	c.Flags().BoolVar(&f.all, "all", false, "forget what all models have used")
	c.Flags().BoolVar(&f.yes, "yes", false, "do not ask")
	f.shared.addFlags(c.Flags())
	return c
}

func (f *resetFlags) run(c *cobra.Command, model string) error {
	what := "what all models have used"
	if !f.all {
		is, err := f.shared.look(c.Context(), model)
		if err != nil {
			return err
		}
		used := is.Models[0].Next.Stats
		what = fmt.Sprintf("what %q has used (%d requests and %d tokens of the minute, %d requests of the day)", model, used.RPM, used.TPM, used.RPD)
	}
	if err := confirm(c, f.yes, "reset forgets "+what); err != nil {
		return err
	}
	err := f.shared.change(c.Context(), c.ErrOrStderr(), func(limiter *ratelimit.RateLimiter) { limiter.Reset(model) })
	if err == nil {
		fmt.Fprintf(c.OutOrStdout(), "forgotten: %s\n", what)
	}
	return err
}
