package cli

import (
	"fmt"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"dappco.re/go/core/go-ratelimit"
)

// causePattern is what the library takes for a cause.
var causePattern = regexp.MustCompile(`^[a-z0-9_]{1,64}$`)

func newCooldown() *cobra.Command {
	var shared sharedState
	var reason string
	c := &cobra.Command{
		Use:   "cooldown MODEL DURATION",
		Short: "Hold back all calls of a model for a while",
		Long: `cooldown holds back all calls of a model, in all processes that share the quota, such as while
the provider has trouble. Calls in flight go on. One that ends later than this is not shortened:
only "ratelimit reset" ends a cooldown, and forgets the usage of the model with it.

It ends with 0, with 1 where the quota cannot be written, or with 2 for arguments that cannot be.`,
		Example: `  ratelimit cooldown gpt-4o 10m
  ratelimit cooldown gpt-4o 1h30m --reason outage`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("cooldown: want a model and a duration, got %d arguments", len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			model := args[0]
			d, err := time.ParseDuration(args[1])
			switch {
			case model == "":
				return usagef("the model is empty")
			case err != nil || d <= 0:
				return usagef("cooldown: %q is no duration above zero, such as 90s, 10m or 1h30m", args[1])
			case !causePattern.MatchString(reason):
				return usagef("--reason: want 1 to 64 of a-z, 0-9 and _, got %q", reason)
			}
			var is ratelimit.Explanation
			err = shared.change(c.Context(), c.ErrOrStderr(), func(limiter *ratelimit.RateLimiter) {
				limiter.CooldownFor(model, d, ratelimit.Cause(reason))
				is = limiter.Explain(model)
			})
			if err == nil {
				fmt.Fprintf(c.OutOrStdout(), "%s: no call before %s (%s)\n", model, is.CooldownUntil.Local().Format(time.DateTime), is.Cause)
			}
			return err
		},
	}
	c.Flags().StringVar(&reason, "reason", string(ratelimit.CauseCaller), "`word` that calls are told as the cause, such as outage")
	shared.addFlags(c.Flags())
	return c
}
