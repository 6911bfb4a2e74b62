package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"dappco.re/go/core/go-ratelimit/cmd/ratelimit/internal/terminal"
)

// errNotConfirmed is the error of a command that was not to go on.
var errNotConfirmed = errors.New("nothing was changed")

// confirm has a person confirm that something is lost. Where nobody can be asked, --yes has to
// stand there.
func confirm(c *cobra.Command, yes bool, loses string) error {
	if yes {
		return nil
	}
	if !terminal.Is(os.Stdin) {
		return usagef("%s: to go on without a question, say --yes", loses)
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s. Go on? [y/N] ", loses)
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errNotConfirmed
}
