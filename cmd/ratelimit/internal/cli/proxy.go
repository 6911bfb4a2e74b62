package cli

import "github.com/spf13/cobra"

func newProxy() *cobra.Command {
	return &cobra.Command{Use: "proxy", Short: "Serve one quota to every client of a machine"}
}
