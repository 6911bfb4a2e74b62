package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/cmd/ratelimit/internal/quotas"
)

func newQuotaRemove() *cobra.Command {
	var shared sharedState
	var yes bool
	c := &cobra.Command{
		Use:   "remove MODEL",
		Short: "Take back the quota of a model",
		Long: `remove takes back what programs and "quota set" have said of a model, and what was learned of it. The
model goes back to its account's limits, to a profile, or to the quota of all models, and has no
limit where there is none. So it asks first. Where nobody can be asked it wants --yes.

It ends with 0, with 1 where the model has no quota, the quota cannot be written or the answer was
no, or with 2 for arguments that cannot be and without a --yes that is needed.`,
		Example: `  ratelimit quota set gpt-4o --rpm 500 && ratelimit quota remove gpt-4o --yes
  ratelimit quota set '*' --rpm 500 && ratelimit quota remove '*' --yes`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return usagef("quota remove: want one model, got %q", args)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			model := args[0]
			var before ratelimit.ModelQuota
			err := shared.read(c.Context(), versions, func(cfg ratelimit.Config) error {
				is, err := inspect(c.Context(), cfg)
				if err != nil {
					return err
				}
				q, had := is.Quotas[model]
				if before = q; !had {
					return fmt.Errorf("%q has no quota of its own", model)
				}
				return nil
			})
			if err != nil {
				return err
			}
			loses := fmt.Sprintf("remove takes back the quota of %q (%s)", model, quotas.Text(before))
			if err := confirm(c, yes, loses); err != nil {
				return err
			}
			err = shared.change(c.Context(), c.ErrOrStderr(), func(limiter *ratelimit.RateLimiter) { limiter.RemoveQuota(model) })
			if err == nil {
				fmt.Fprintf(c.OutOrStdout(), "%s: the quota was %s\n", model, quotas.Text(before))
			}
			return err
		},
	}
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	shared.addFlags(c.Flags())
	return c
}
