node_sg_enable_recommended_rules = "false"
