package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/cmd/ratelimit/internal/quotas"
)

func newQuota() *cobra.Command {
	c := &cobra.Command{
		Use:   "quota",
		Short: "Show and change the quotas that all programs share",
		Long: `quota shows and changes the quotas of the shared state. Running programs keep to a change at once.
A program that says quotas of its own, such as a proxy with --rpm, says them anew when it starts:
of two that say a quota, the one said last holds.`,
		Example: `  ratelimit quota set gpt-4o --rpm 500 --tpm 30000
  ratelimit quota set gpt-4o --rpm 500 && ratelimit quota show`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newQuotaShow(), newQuotaSet(), newQuotaRemove())
	return c
}

// quotaRow is a line of quota show, and an element of its JSON.
type quotaRow struct {
	Model  string               `json:"model"`
	Quota  ratelimit.ModelQuota `json:"quota"`
	Origin string               `json:"origin,omitempty"` // as that of ratelimit.Explanation
	By     string               `json:"by,omitempty"`     // for a model that was asked for: the name of its quota
}

func newQuotaShow() *cobra.Command {
	var shared sharedState
	var asJSON bool
	c := &cobra.Command{
		Use:   "show [MODEL]",
		Short: "Show the quotas that hold",
		Long: `show prints the quota of each model and pattern, or the one that holds for a model. It only reads.

It ends with 0, with 1 where there is no shared quota yet or none holds for the model, or with 2
for arguments that cannot be.`,
		Example: `  ratelimit quota set gpt-4o --rpm 500 && ratelimit quota show
  ratelimit quota set gpt-4o --rpm 500 && ratelimit quota show gpt-4o-2024-08-06 --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("quota show: want one model at most, got %d", len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			rows, err := quotaRows(c.Context(), &shared, append(args, "")[0])
			if err != nil {
				return err
			}
			if asJSON {
				to := json.NewEncoder(c.OutOrStdout())
				to.SetIndent("", "  ")
				return to.Encode(rows)
			}
			return writeQuotas(c.OutOrStdout(), rows)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON: a list of model, quota and origin")
	shared.addFlags(c.Flags())
	return c
}

// quotaRows reads the quotas of the shared state, or the one that holds for a model.
func quotaRows(ctx context.Context, shared *sharedState, model string) ([]quotaRow, error) {
	rows := []quotaRow{} // no null in JSON
	err := shared.read(ctx, versions, func(cfg ratelimit.Config) error {
		is, err := inspect(ctx, cfg)
		if err != nil {
			return err
		}
		names := slices.Sorted(maps.Keys(is.Quotas))
		if model != "" {
			names = []string{model}
		}
		if len(names) == 0 {
			return nil
		}
		explained, err := inspect(ctx, cfg, names...)
		if err != nil {
			return err
		}
		for i := range explained.Models {
			e := &explained.Models[i]
			q, holds := is.Quotas[e.Quota]
			switch {
			case model == "":
				rows = append(rows, quotaRow{Model: e.Model, Quota: is.Quotas[e.Model], Origin: e.Origin})
			case !holds:
				return fmt.Errorf("no quota holds for the model %q: ratelimit quota set", model)
			default:
				rows = append(rows, quotaRow{model, q, e.Origin, e.Quota})
			}
		}
		return nil
	})
	return rows, err
}

// inspect looks at a shared quota; where there is none, it says so.
func inspect(ctx context.Context, cfg ratelimit.Config, models ...string) (*ratelimit.Inspection, error) {
	is, err := ratelimit.Inspect(ctx, cfg, models...)
	if missing := (*fs.PathError)(nil); errors.As(err, &missing) && errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no shared quota at %s: no program has used it yet, or it is elsewhere (--db, --redis)", missing.Path)
	}
	return is, err
}

// writeQuotas writes quotas for people.
func writeQuotas(to io.Writer, rows []quotaRow) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(to, "no quota is set")
		return err
	}
	t := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "MODEL\tSAID BY\tQUOTA")
	for _, r := range rows {
		name := r.Model
		if r.By != "" && r.By != r.Model {
			name += " by " + r.By
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", name, cmp.Or(r.Origin, "-"), quotas.Text(r.Quota))
	}
	return t.Flush()
}
