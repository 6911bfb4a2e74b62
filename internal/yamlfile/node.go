package yamlfile

import (
	"fmt"

	"gopkg.in/yaml.v3"

	"dappco.re/go/core/go-ratelimit/internal/errtext"
)

// isNull reports whether a node is null, also by having no text.
func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// checkMarks refuses what no file of ours needs: an alias, an anchor, and a tag that the text
// states, other than the allowed one ("" for none). It does not look at the nodes below.
func checkMarks(n *yaml.Node, allowed string) error {
	switch {
	case n.Kind == yaml.AliasNode:
		return fmt.Errorf("an alias *%s", errtext.Clip(n.Value))
	case n.Anchor != "":
		return fmt.Errorf("an anchor &%s", errtext.Clip(n.Anchor))
	case n.Style&yaml.TaggedStyle != 0 && n.ShortTag() != allowed:
		return fmt.Errorf("a tag %q", errtext.Clip(n.Tag))
	}
	return nil
}

// wrongType returns the error of a node that is not what is wanted, such as "a list".
func wrongType(n *yaml.Node, want string) error {
	switch n.Kind {
	case yaml.MappingNode:
		return fmt.Errorf("a map is not %s", want)
	case yaml.SequenceNode:
		return fmt.Errorf("a list is not %s", want)
	}
	return fmt.Errorf("%q is not %s", errtext.Clip(n.Value), want)
}
