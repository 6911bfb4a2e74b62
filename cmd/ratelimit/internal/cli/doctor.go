package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/accountlimits"
	"dappco.re/go/core/go-ratelimit/cmd/ratelimit/internal/doctor"
	"dappco.re/go/core/go-ratelimit/internal/settings"
)

// doctorFlags say what is looked at.
type doctorFlags struct {
	shared         sharedState
	providerLimits bool
	clock          string
	json           bool
}

func newDoctor() *cobra.Command {
	var f doctorFlags
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what keeps the shared quota from working",
		Long: `doctor looks at the shared quota and its surroundings: whether the file is on a disk of this
machine, is nobody else's, can be locked, and is of this version; whether the clock was set back, or
differs from that of Redis; whether models are called that no quota limits, or that have no price
where money is limited; and whether limits and prices come from figures older than 90 days.

It only reads, also while programs run, and asks nobody but Redis, unless told to: --clock compares
the clock with the Date header of a server, and --provider-limits compares the quotas with those of
the accounts whose keys are in the environment:

  OPENAI_ADMIN_KEY and OPENAI_PROJECT     a project at OpenAI
  ANTHROPIC_ADMIN_KEY                     an organization at Anthropic, or ANTHROPIC_WORKSPACE of it
  OPENROUTER_API_KEY                      the free models at OpenRouter

Each finding is a line: what was looked at, what is wrong, and what to do. It ends with 0 where
nothing is found, with 1 where something is, or with 2 for flags that cannot be.`,
		Example: `  ratelimit doctor
  ratelimit doctor --json`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c.Context(), c.OutOrStdout()) },
	}
	c.Flags().SortFlags = false
	c.Flags().BoolVar(&f.providerLimits, "provider-limits", false, "ask the providers for the limits of the account")
	c.Flags().StringVar(&f.clock, "clock", "", "`URL` of a server whose time is asked for, such as https://api.openai.com")
	c.Flags().BoolVar(&f.json, "json", false, "print JSON: findings, each with check, about, text and do; and notes")
	f.shared.addFlags(c.Flags())
	return c
}

func (f *doctorFlags) run(ctx context.Context, to io.Writer) error {
	s := doctor.Settings{Now: time.Now(), ClockOf: f.clock}
	if u, err := url.Parse(f.clock); f.clock != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http") {
		return usagef("--clock: want an address such as https://api.openai.com")
	}
	if f.providerLimits {
		if s.Sources = accounts(); len(s.Sources) == 0 {
			return usagef("--provider-limits: no key is in the environment: set OPENAI_ADMIN_KEY and OPENAI_PROJECT, ANTHROPIC_ADMIN_KEY, or OPENROUTER_API_KEY")
		}
	}
	var report *doctor.Report
	err := f.shared.read(ctx, versions, func(cfg ratelimit.Config) (err error) {
		s.Config = cfg
		if cfg.Store == nil {
			_, s.File, err = settings.Place("sqlite", cfg.FilePath)
		}
		if err == nil {
			report = doctor.Examine(ctx, s)
		}
		return err
	})
	if err != nil {
		return err
	}
	if f.json {
		encoder := json.NewEncoder(to)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(report)
	} else {
		err = report.Write(to)
	}
	if err == nil && len(report.Findings) > 0 {
		return statusError{status: exitFailure}
	}
	return err
}

// accounts returns where the limits of the accounts are read whose keys are in the environment.
func accounts() map[string]accountlimits.Source {
	sources := make(map[string]accountlimits.Source)
	if key, project := os.Getenv("OPENAI_ADMIN_KEY"), os.Getenv("OPENAI_PROJECT"); key != "" && project != "" {
		sources["openai"] = accountlimits.OpenAI{AdminKey: key, Project: project}
	}
	if key := os.Getenv("ANTHROPIC_ADMIN_KEY"); key != "" {
		sources["anthropic"] = accountlimits.Anthropic{AdminKey: key, Workspace: os.Getenv("ANTHROPIC_WORKSPACE")}
	}
	if key := os.Getenv("OPENROUTER_API_KEY"); key != "" {
		sources["openrouter"] = accountlimits.OpenRouter{Key: key}
	}
	return sources
}
