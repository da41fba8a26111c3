// SPDX-License-Identifier: GPL-2.0-or-later
#include "tc.h"

SEC("tc")
int tc_drop_no_touch(struct __sk_buff *skb)
{
	return count(skb, TC_ACT_SHOT);
}
