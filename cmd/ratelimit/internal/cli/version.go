package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

const rootExamples = `  ratelimit proxy --upstream https://api.openai.com --rpm 30 --tpm 40000
  ratelimit env openai-python`

// addVersion adds the command version, and the flag --version, which prints the same.
func addVersion(root *cobra.Command) {
	root.Version = versionText(debug.ReadBuildInfo())
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.AddCommand(&cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Long:  `version prints the version of this program, its commit, and the Go that built it.`,
		Example: `  ratelimit version
  ratelimit --version`,
		Args: noArguments,
		Run: func(command *cobra.Command, _ []string) {
			fmt.Fprintln(command.OutOrStdout(), root.Name(), root.Version)
		},
	})
}

// versionText returns what is known of how this program was built.
func versionText(info *debug.BuildInfo, known bool) string {
	platform := runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
	if !known {
		return "(devel) " + platform
	}
	version := info.Main.Version
	if version == "" {
		version = "(devel)"
	}
	var commit, changed string
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision":
			commit = " commit " + setting.Value
		case setting.Key == "vcs.modified" && setting.Value == "true":
			changed = " with changes"
		}
	}
	return version + commit + changed + " " + platform
}
