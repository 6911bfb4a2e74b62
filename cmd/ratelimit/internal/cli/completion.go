package cli

import (
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// completionScripts write what makes a shell complete this program's commands.
var completionScripts = map[string]func(root *cobra.Command, out io.Writer) error{
	"bash":       func(root *cobra.Command, out io.Writer) error { return root.GenBashCompletionV2(out, true) },
	"zsh":        (*cobra.Command).GenZshCompletion,
	"fish":       func(root *cobra.Command, out io.Writer) error { return root.GenFishCompletion(out, true) },
	"powershell": (*cobra.Command).GenPowerShellCompletionWithDesc,
}

// addCompletion adds the command completion, in place of cobra's, whose help has no examples.
func addCompletion(root *cobra.Command) {
	names := slices.Sorted(maps.Keys(completionScripts))
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(&cobra.Command{
		Use:   "completion " + strings.Join(names, "|"),
		Short: "Print a script that completes commands in a shell",
		Long: `completion prints a script that makes a shell complete commands, flags and the names of
clients. The shell reads it with source, or at its start from its folder of completions, such as
/etc/bash_completion.d, ~/.config/fish/completions or a folder of zsh's fpath, where the file
is named _ratelimit.`,
		Example: `  ratelimit completion bash > ratelimit.bash
  ratelimit completion zsh > _ratelimit
  ratelimit completion powershell > ratelimit.ps1`,
		ValidArgs: names,
		Args: func(_ *cobra.Command, arguments []string) error {
			if len(arguments) != 1 || completionScripts[arguments[0]] == nil {
				return usagef("completion: want one of %s", strings.Join(names, ", "))
			}
			return nil
		},
		RunE: func(command *cobra.Command, arguments []string) error {
			return completionScripts[arguments[0]](root, command.OutOrStdout())
		},
	})
}
