// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The static libelf of elfutils 0.192, which is Debian 13's, was released without its own search
 * trees (https://sourceware.org/bugzilla/show_bug.cgi?id=32293). They serve elf_getdata_rawchunk(),
 * which libbpf does not call; opening and closing a file only make the empty tree, which libelf has
 * zeroed already, and end it. A library that has the real functions overrides these.
 *
 * Delete this file when Debian 13 is no longer supported.
 */
struct search_tree;

void eu_search_tree_init(struct search_tree *tree);
void eu_search_tree_fini(struct search_tree *tree, void (*free_node)(void *node));

__attribute__((weak)) void eu_search_tree_init(struct search_tree *tree)
{
	(void)tree;
}

__attribute__((weak)) void eu_search_tree_fini(struct search_tree *tree,
					       void (*free_node)(void *node))
{
	(void)tree;
	(void)free_node;
}
